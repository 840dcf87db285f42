import fs from 'node:fs';
import path from 'node:path';
import { Client } from 'pg';

/**
 * Postgres rebuilds these folders at its start, or they only belong to the running server (Postgres manual, "Making a
 * Base Backup").
 */
const emptied = new Set([
  'pg_wal',
  'pg_dynshmem',
  'pg_notify',
  'pg_replslot',
  'pg_serial',
  'pg_snapshots',
  'pg_stat_tmp',
  'pg_subtrans',
]);
const leftOut =
  /^(\.s\.PGSQL\..*|postmaster\.(pid|opts)|pgsql_tmp.*|pg_internal\.init.*|backup_label.*|tablespace_map.*)$/;
const segmentName = /^[0-9A-F]{24}$/;

/**
 * Copies a running cluster with all its databases at one point in time, with Postgres's low-level backup functions:
 * first the files, then the write-ahead log from the begin of the copy to its end. A Postgres that starts on the copy
 * replays that log, so its databases are consistent although they were written during the copy. The npm package of
 * Postgres lacks `pg_basebackup`, which does the same.
 * @param url the URL for the superuser
 * @returns the position in the log of the copy
 */
export async function copyCluster(url: string, from: string, to: string): Promise<string> {
  const client = new Client({ connectionString: url });
  await client.connect();
  try {
    // Keeps the log from here on. The slot ends with this session.
    await client.query("select pg_create_physical_replication_slot('platform_backup', true, true)");
    const { rows: begun } = await client.query("select pg_walfile_name(pg_backup_start('platform', true)) as segment");
    copyFiles(from, to);
    const { rows: ended } = await client.query(
      `select lsn::text as lsn, labelfile, pg_walfile_name(lsn) as segment from pg_backup_stop(wait_for_archive => false)`,
    );
    const { lsn, labelfile, segment } = ended[0] as { lsn: string; labelfile: string; segment: string };
    fs.writeFileSync(path.join(to, 'backup_label'), labelfile, { mode: 0o600 });
    takeOwnership(path.join(to, 'backup_label'), fs.statSync(from));
    copyLog(path.join(from, 'pg_wal'), path.join(to, 'pg_wal'), { first: begun[0].segment, last: segment });
    return lsn;
  } finally {
    await client.end();
  }
}

/** Files may change, grow and disappear during the copy. The log contains their final state. */
function copyFiles(from: string, to: string): void {
  makeFolder(from, to);
  for (const entry of readFolder(from)) {
    const [source, target] = [path.join(from, entry.name), path.join(to, entry.name)];
    if (leftOut.test(entry.name)) continue;
    if (!entry.isDirectory()) copyFile(source, target);
    else if (emptied.has(entry.name)) makeFolder(source, target);
    else copyFiles(source, target);
  }
}

/** Copies the history of timelines, and the segments from `first` to `last`. */
function copyLog(from: string, to: string, { first, last }: { first: string; last: string }): void {
  makeFolder(path.join(from, 'archive_status'), path.join(to, 'archive_status'));
  if (fs.existsSync(path.join(from, 'summaries'))) makeFolder(path.join(from, 'summaries'), path.join(to, 'summaries'));
  for (const { name } of readFolder(from)) {
    const isWanted = segmentName.test(name) ? name >= first && name <= last : name.endsWith('.history');
    if (isWanted) copyFile(path.join(from, name), path.join(to, name));
  }
  for (const name of [first, last]) {
    if (!fs.existsSync(path.join(to, name))) throw new Error(`the log of Postgres has no ${name} any more`);
  }
}

function readFolder(folder: string): fs.Dirent[] {
  try {
    return fs.readdirSync(folder, { withFileTypes: true });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return [];
    throw error;
  }
}

function copyFile(source: string, target: string): void {
  try {
    const info = fs.statSync(source);
    fs.copyFileSync(source, target, fs.constants.COPYFILE_FICLONE);
    takeOwnership(target, info);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
  }
}

function makeFolder(source: string, target: string): void {
  fs.mkdirSync(target, { recursive: true });
  takeOwnership(target, fs.statSync(source));
}

function takeOwnership(target: string, { uid, gid, mode }: fs.Stats): void {
  fs.chownSync(target, uid, gid);
  fs.chmodSync(target, mode);
}
