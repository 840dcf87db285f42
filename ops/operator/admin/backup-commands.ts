import { randomBytes } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { type Client, WorkflowFailedError } from '@temporalio/client';
import { rootCause } from '@temporalio/common';
import { recordAudit } from '../../../db/accounts/audit-events.ts';
import { readHosts } from '../../../db/hosts/host-drains.ts';
import { readSecrets } from '../../../db/open-secrets.ts';
import { isNewestSecretKey } from '../../../db/upkeep/secret-keys.ts';
import type { SandboxId } from '../../../domain/ids.ts';
import type { DiskCopyResult } from '../../../domain/workflow-registry.ts';
import { createTemporalClient } from '../../../platform/temporal/client.ts';
import { startOptions } from '../../../platform/temporal/workflow-starts.ts';
import { embeddedCluster, networkSettings, writeBackup } from '../backup/create.ts';
import type { CopiedDisk } from '../backup/disk-backup.ts';
import { restoreBackup } from '../backup/restore.ts';
import type { PlatformDatabase } from './database.ts';
import {
  type OfflineCommand,
  type OperatorCommand,
  OperatorError,
  reportProgress,
  required,
  text,
} from './operator-command.ts';

/** Backup and restore of a platform that `npm start` runs. */
export const backupCommands: Record<string, OperatorCommand> = {
  backup: {
    usage: '--to FOLDER',
    does: 'Copies databases, disks, images and the secret key of a running platform; a sandbox is frozen while its own disk is copied',
    options: { to: text },
    run: (database, values) => backUp(database, path.resolve(required(values, 'to'))),
  },
};

export const restoreCommands: Record<string, OfflineCommand> = {
  restore: {
    usage: '--from FOLDER',
    does: 'Makes the data folder PLATFORM_DATA_DIR, which must be empty, from a backup',
    options: { from: text },
    async run(values) {
      const dataDir = path.resolve(process.env.PLATFORM_DATA_DIR || '.data');
      const note = await restoreBackup(path.resolve(required(values, 'from')), dataDir);
      if (note.settings.length > 0) reportProgress(`start it with the same ${note.settings.join(', ')} as before`);
      const network = note.settings.filter((name) => networkSettings.includes(name));
      if (network.length > 0) {
        reportProgress(
          `if sandboxes of the old platform still run on this machine, set another ${network.join(' and ')}`,
        );
      }
      return { dataDir, ...note };
    },
  },
};

/** Backs up the running platform. Its sandboxes continue, and others are created meanwhile. */
async function backUp({ orm, settings, env }: PlatformDatabase, target: string) {
  const { PLATFORM_DATA_DIR: dataDir, PLATFORM_SECRET_KEY: secretKey } = settings;
  if (fs.existsSync(target)) throw new OperatorError(`${target} exists already`);
  if (!(await isNewestSecretKey(orm.em.fork(), settings))) {
    throw new OperatorError('The secret key is being replaced: run rotate-secret-key first');
  }
  const cluster = embeddedCluster(dataDir, { databaseUrl: settings.DATABASE_URL, secretKey });
  if (fs.existsSync(path.join(dataDir, 'temporal/temporal.sqlite'))) {
    throw new OperatorError(
      "Temporal's development server keeps its data in a file that cannot be copied with the database. For backups, start a new data folder with PLATFORM_TEMPORAL_BUILD=1",
    );
  }
  const hostId = settings.PLATFORM_HOST_ID ?? fs.readFileSync(path.join(dataDir, 'host-id'), 'utf8').trim();
  const hosts = await readHosts(orm.em);
  const others = hosts.filter((host) => host.hostId !== hostId && host.state !== 'lost');
  if (others.length > 0) {
    throw new OperatorError(`The disks of ${others.map((host) => host.hostId).join(', ')} are on other machines`);
  }
  if (!hosts.some((host) => host.hostId === hostId)) throw new OperatorError(`There is no host ${hostId}`);

  const client = createTemporalClient(settings, await readSecrets(orm, settings));
  try {
    const made = await writeBackup({
      dataDir,
      target,
      hostId,
      secretKey,
      cluster,
      env,
      copyDisk: (sandboxId) => copyDisk(client, { dataDir, hostId, sandboxId }),
    });
    await recordAudit(orm.em.fork(), { accountId: null, objectId: null, before: null, after: { lsn: made.lsn } });
    return { folder: target, ...made };
  } finally {
    await client.connection.close();
  }
}

/** Lets the host copy the disk, because only the host can freeze a sandbox that its users pause and resume meanwhile. */
async function copyDisk(
  client: Client,
  { dataDir, hostId, sandboxId }: { dataDir: string; hostId: string; sandboxId: SandboxId },
): Promise<CopiedDisk | null> {
  const copyId = `backup-${randomBytes(8).toString('hex')}`;
  const folder = path.join(dataDir, 'oci/builds', copyId);
  try {
    const options = startOptions('diskCopy', copyId, { copyId, sandboxId, hostId });
    const copied = (await client.workflow.execute('diskCopy', options)) as DiskCopyResult | null;
    if (copied) return { folder, frozenMs: copied.frozenMs };
  } catch (error) {
    fs.rmSync(folder, { recursive: true, force: true });
    const cause = error instanceof WorkflowFailedError ? rootCause(error) : undefined;
    throw cause ? new OperatorError(`The disk of ${sandboxId} could not be copied: ${cause}`) : error;
  }
  fs.rmSync(folder, { recursive: true, force: true });
  return null;
}
