import fs from 'node:fs';
import path from 'node:path';
import type { Client } from '@temporalio/client';
import pLimit from 'p-limit';
import { deriveSecrets } from '../../../config/secrets.ts';
import { recordAudit } from '../../../db/repositories/audit-events.ts';
import { readHosts } from '../../../db/repositories/host-drains.ts';
import type { SandboxId } from '../../../domain/ids.ts';
import { createTemporalClient } from '../../../temporal/client.ts';
import { embeddedCluster, writeBackup } from '../backup/create.ts';
import { restoreBackup } from '../backup/restore.ts';
import type { PlatformDatabase } from './database.ts';
import { changeDraining, untilDrained } from './host-drain.ts';
import {
  type OfflineCommand,
  type OperatorCommand,
  OperatorError,
  reportProgress,
  required,
  text,
} from './operator-command.ts';

/** The number of concurrent resumes. */
const resumesAtOnce = 8;

/** Backup and restore of a platform that `npm start` runs. */
export const backupCommands: Record<string, OperatorCommand> = {
  backup: {
    usage: '--to FOLDER',
    does: 'Copies databases, disks, images and the secret key of one point in time; sandboxes are frozen during the copy',
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
      return { dataDir, ...note };
    },
  },
};

/**
 * Pauses running sandboxes, as a drain does, so that no disk changes during the copy and no disk is newer than its row.
 * Afterwards resumes the sandboxes that it has paused.
 */
async function backUp({ orm, settings }: PlatformDatabase, target: string) {
  const { PLATFORM_DATA_DIR: dataDir, PLATFORM_SECRET_KEY: secretKey } = settings;
  if (fs.existsSync(target)) throw new OperatorError(`${target} exists already`);
  const cluster = embeddedCluster(dataDir, { databaseUrl: settings.DATABASE_URL, secretKey });
  if (fs.existsSync(path.join(dataDir, 'temporal/temporal.sqlite'))) {
    throw new OperatorError(
      "Temporal's development server keeps its data in a file that cannot be copied with the database",
    );
  }
  const hostId = settings.PLATFORM_HOST_ID ?? fs.readFileSync(path.join(dataDir, 'host-id'), 'utf8').trim();
  const hosts = await readHosts(orm.em);
  const others = hosts.filter((host) => host.hostId !== hostId && host.state !== 'lost');
  if (others.length > 0) {
    throw new OperatorError(`The disks of ${others.map((host) => host.hostId).join(', ')} are on other machines`);
  }
  const own = hosts.find((host) => host.hostId === hostId);
  if (!own) throw new OperatorError(`There is no host ${hostId}`);

  const client = createTemporalClient(settings, deriveSecrets(settings));
  const wasDraining = own.drainingSince !== null;
  const startedMs = performance.now();
  let standstillMs = 0;
  const asked = new Set<SandboxId>();
  let resumed = false;
  const resume = async () => {
    if (resumed) return;
    resumed = true;
    if (!wasDraining) await changeDraining(orm, hostId, false);
    await resumeAll(client, asked);
    standstillMs = performance.now() - startedMs;
  };
  await changeDraining(orm, hostId, true);
  try {
    await untilDrained(orm, hostId, { pause: true, wait: true, onAsked: (id) => asked.add(id) });
    const note = await writeBackup({
      dataDir,
      target,
      hostId,
      wasDraining,
      secretKey,
      cluster,
      env: process.env,
      resume,
    });
    await recordAudit(orm.em.fork(), { accountId: null, objectId: null, before: null, after: { lsn: note.lsn } });
    return { folder: target, standstillSeconds: Math.round(standstillMs / 1000), ...note };
  } finally {
    await resume();
    await client.connection.close();
  }
}

/** Reports sandboxes that could not be resumed, so that their users can resume them. */
async function resumeAll(client: Client, sandboxIds: Iterable<SandboxId>): Promise<void> {
  const limit = pLimit(resumesAtOnce);
  const resumes = [...sandboxIds].map((id) =>
    limit(async () => {
      try {
        await client.workflow.getHandle(id).executeUpdate('resume', { args: [{ wait: true }] });
      } catch (error) {
        const cause = error instanceof Error && error.cause instanceof Error ? error.cause.message : String(error);
        reportProgress(`${id} stays paused: ${cause}`);
      }
    }),
  );
  await Promise.all(resumes);
}
