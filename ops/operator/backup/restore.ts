import { execFile } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import { Client } from 'pg';
import { freeLoopbackPort } from '../../../config/free-port.ts';
import { ensureUnprivilegedUser, startPostgres } from '../../local-stack/embedded/postgres.ts';
import { derivePassword } from '../../local-stack/supervisor/data-folder.ts';
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
    await run('sync', ['--file-system', unfinished]);
    if (fs.existsSync(dataDir)) fs.rmdirSync(dataDir);
    fs.renameSync(unfinished, dataDir);
    return note;
  } finally {
    fs.rmSync(unfinished, { recursive: true, force: true });
  }
}

/**
 * Lets Postgres replay the log of the copied cluster, which proves that the backup is intact, and ends the drain that
 * the backup began.
 * @throws {ProgramError} with the end of Postgres's log
 */
async function recoverCluster(dataDir: string, { hostId, wasDraining }: BackupNote): Promise<void> {
  const secretKey = fs.readFileSync(path.join(dataDir, 'secret-key'), 'utf8').trim();
  const logDir = path.join(dataDir, 'logs');
  fs.mkdirSync(logDir, { recursive: true, mode: 0o700 });
  const postgres = await startPostgres({
    dir: path.join(dataDir, 'postgres'),
    home: { logDir },
    port: await freeLoopbackPort(),
    password: derivePassword(secretKey, 'postgres'),
  });
  const client = new Client({ connectionString: postgres.url('platform') });
  try {
    await client.connect();
    if (!wasDraining) await client.query('update hosts set draining_since = null where host_id = $1', [hostId]);
  } finally {
    await client.end();
    await postgres.stop();
  }
}

/** Changes the cluster's owner, because Postgres's user may have another number on this machine. */
async function giveClusterToItsUser(cluster: string): Promise<void> {
  const { uid, gid } = await ensureUnprivilegedUser();
  await run('chown', ['--recursive', `${uid}:${gid}`, cluster]);
}
