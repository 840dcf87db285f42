import { execFile } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import { readSecrets } from '../../../db/open-secrets.ts';
import { createOrm } from '../../../db/orm.ts';
import { toLifeStart } from '../../../db/sandboxes/admission.ts';
import { Sandbox } from '../../../db/sandboxes/sandbox.entity.ts';
import { freeLoopbackPort } from '../../../platform/config/free-port.ts';
import { loadSomeSettings } from '../../../platform/config/settings.ts';
import { createTemporalClient } from '../../../platform/temporal/client.ts';
import { startOptions } from '../../../platform/temporal/workflow-starts.ts';
import { choosePorts } from '../../local-stack/embedded/ports.ts';
import { type EmbeddedPostgres, ensureUnprivilegedUser, startPostgres } from '../../local-stack/embedded/postgres.ts';
import { startTemporalOnPostgres, temporalInnerPorts } from '../../local-stack/embedded/temporal.ts';
import { derivePassword } from '../../local-stack/supervisor/data-folder.ts';
import { temporalPrograms, temporalServerMark } from '../../setup/toolchain/locations.mjs';
import { OperatorError, reportProgress } from '../admin/operator-command.ts';
import { type BackupNote, noteFile, readBackupNote } from './backup-note.ts';

const run = promisify(execFile);

/**
 * Makes a data folder from a backup. A platform that is started on it has the keys, accounts, workflows and disks of
 * the time of the backup. Processes are gone, as after a reboot.
 * @param dataDir must be empty or missing; after a failure it is empty
 * @throws {OperatorError}
 */
export async function restoreBackup(backup: string, dataDir: string): Promise<BackupNote> {
  const note = readBackupNote(backup);
  if (!note) throw new OperatorError(`${backup} has no whole backup: there is no ${noteFile}`);
  if (fs.existsSync(dataDir) && fs.readdirSync(dataDir).length > 0) {
    throw new OperatorError(`${dataDir} is not empty: name a new data folder in PLATFORM_DATA_DIR`);
  }
  if (note.settings.includes('PLATFORM_CODEC_KEYS') && !process.env.PLATFORM_CODEC_KEYS) {
    throw new OperatorError('Set the same PLATFORM_CODEC_KEYS as before: without them, no workflow can be read');
  }
  if (!fs.existsSync(temporalPrograms().dir)) {
    throw new OperatorError(
      "A backup needs Temporal's server, which is not built on this machine: PLATFORM_TEMPORAL_BUILD=1 node ops/setup/main.mjs",
    );
  }
  const unfinished = `${dataDir}.unfinished`;
  fs.rmSync(unfinished, { recursive: true, force: true });
  fs.mkdirSync(unfinished, { recursive: true, mode: 0o711 });
  try {
    reportProgress(`copying ${backup}`);
    await run('cp', ['--archive', '--sparse=always', '--reflink=auto', `${backup}/.`, unfinished]);
    fs.rmSync(path.join(unfinished, noteFile));
    fs.chmodSync(unfinished, 0o711);
    if (process.getuid?.() === 0) await giveClusterToItsUser(path.join(unfinished, 'postgres'));
    reportProgress('replaying the log of the databases');
    await recoverCluster(unfinished, note);
    // The next start writes its configuration there.
    fs.mkdirSync(path.dirname(temporalServerMark(unfinished)), { recursive: true, mode: 0o700 });
    fs.closeSync(fs.openSync(temporalServerMark(unfinished), 'a', 0o600));
    await run('sync', ['--file-system', unfinished]);
    if (fs.existsSync(dataDir)) fs.rmdirSync(dataDir);
    fs.renameSync(unfinished, dataDir);
    return note;
  } finally {
    fs.rmSync(unfinished, { recursive: true, force: true });
  }
}

/**
 * Lets Postgres replay the log of the copied cluster, which proves that the backup is intact, and tells the workflows of
 * sandboxes that their processes are gone.
 * @throws {ProgramError} with the end of a program's log
 */
async function recoverCluster(dataDir: string, note: BackupNote): Promise<void> {
  const secretKey = fs.readFileSync(path.join(dataDir, 'secret-key'), 'utf8').trim();
  const logDir = path.join(dataDir, 'logs');
  fs.mkdirSync(logDir, { recursive: true, mode: 0o700 });
  const postgres = await startPostgres({
    dir: path.join(dataDir, 'postgres'),
    home: { logDir },
    port: await freeLoopbackPort(),
    password: derivePassword(secretKey, 'postgres'),
  });
  try {
    const running = await hadProcesses(postgres.url('platform'));
    if (running.length > 0)
      await reportLostMemory(running, { dataDir, logDir, secretKey, postgres, at: note.createdAt });
  } finally {
    await postgres.stop();
  }
}

/** The sandboxes that had processes when the backup was made. */
async function hadProcesses(databaseUrl: string): Promise<Sandbox[]> {
  const orm = await createOrm(databaseUrl, 1);
  try {
    return await orm.em.fork().find(Sandbox, { status: { $in: ['running', 'pausing'] } });
  } finally {
    await orm.close();
  }
}

/**
 * Without the report, a workflow whose timeout has passed since the backup would end its sandbox before the host
 * reports that the processes are gone, and the disk would be lost.
 */
async function reportLostMemory(
  sandboxes: readonly Sandbox[],
  parts: { dataDir: string; logDir: string; secretKey: string; postgres: EmbeddedPostgres; at: string },
): Promise<void> {
  reportProgress(`telling the workflows of ${sandboxes.length} sandboxes that their processes are gone`);
  const { secretKey, at } = parts;
  const settings = loadSomeSettings(['TEMPORAL_NAMESPACE', 'PLATFORM_CODEC_KEYS']);
  // Below 32768: Temporal stores its ports in a 16-bit column.
  const ports = await choosePorts(
    parts.dataDir,
    (['PLATFORM_TEMPORAL_PORT', ...temporalInnerPorts] as const).map((name) => ({ name, preferred: 7700 })),
  );
  const temporal = await startTemporalOnPostgres({
    postgres: parts.postgres,
    password: derivePassword(secretKey, 'postgres temporal'),
    programs: temporalPrograms(),
    dataDir: parts.dataDir,
    home: { logDir: parts.logDir },
    ports: { frontend: ports.PLATFORM_TEMPORAL_PORT, ...ports },
    namespace: settings.TEMPORAL_NAMESPACE,
  });
  const connected = createTemporalClient(
    { ...settings, TEMPORAL_ADDRESS: temporal.address, TEMPORAL_TLS: false },
    await readRestoredSecrets(parts.postgres.url('platform'), { ...settings, PLATFORM_SECRET_KEY: secretKey }),
  );
  try {
    for (const sandbox of sandboxes) {
      // Its current run, whichever number it has.
      const report = { kind: 'memoryLost', run: null, at };
      // A sandbox may run before its workflow has begun. The outbox would start that after its timeout may have passed.
      await connected.workflow.signalWithStart('sandbox', {
        ...startOptions('sandbox', sandbox.sandboxId, toLifeStart(sandbox)),
        ...{ signal: 'hostReport', signalArgs: [report] },
      });
    }
  } finally {
    await connected.connection.close();
    await temporal.stop();
  }
}

async function readRestoredSecrets(databaseUrl: string, settings: Parameters<typeof readSecrets>[1]) {
  const orm = await createOrm(databaseUrl, 1);
  try {
    return await readSecrets(orm, settings);
  } finally {
    await orm.close();
  }
}

/** Changes the cluster's owner, because Postgres's user may have another number on this machine. */
async function giveClusterToItsUser(cluster: string): Promise<void> {
  const { uid, gid } = await ensureUnprivilegedUser();
  await run('chown', ['--recursive', `${uid}:${gid}`, cluster]);
}
