import { execFile } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import { z } from 'zod';
import type { SandboxId } from '../../../domain/ids.ts';
import { writeFileDurably } from '../../../platform/config/durable-file.ts';
import { readDocument } from '../../../platform/config/readable-document.ts';
import { databaseUrl } from '../../local-stack/embedded/postgres.ts';
import { derivePassword } from '../../local-stack/supervisor/data-folder.ts';
import { OperatorError, reportProgress } from '../admin/operator-command.ts';
import { type BackupNote, noteFile } from './backup-note.ts';
import { copyCluster } from './cluster-copy.ts';
import { type CopiedDisk, DiskBackup } from './disk-backup.ts';
import { copy } from './file-copy.ts';

const run = promisify(execFile);
/** Files that are copied unchanged. `secret-key` is written from the settings. */
const plainFiles = ['host-id', 'ports.json', 'platform.env', 'ca', 'mails'];
/**
 * The ports of the host that are forwarded to sandboxes. The network is left out, because sandboxes of the old platform
 * may still use it on the machine of the restore.
 */
const hostFiles = ['udp-ports.json'];
const linksFolder = 'backup-links';
const notLinked = new Set(['_uploads', linksFolder]);
/** Settings with a part of the machine's network that no two platforms can have. */
export const networkSettings = ['PLATFORM_SANDBOX_SUBNET', 'PLATFORM_UDP_PORTS'];
/** Settings that are in no file of the data folder. */
const settingsToKeep = [
  'PLATFORM_CODEC_KEYS',
  'PLATFORM_PLANS_FILE',
  'PLATFORM_HOST_ID',
  'PLATFORM_BASE_DOMAIN',
  'TEMPORAL_NAMESPACE',
  ...networkSettings,
];

const portsDocument = z.record(z.string(), z.int());

/** The embedded databases of `npm start`. @throws {OperatorError} when the operator uses external ones */
export function embeddedCluster(
  dataDir: string,
  env: { databaseUrl: string; secretKey: string },
): { url: string; dir: string } {
  const dir = path.join(dataDir, 'postgres');
  const port = readDocument(path.join(dataDir, 'ports.json'), portsDocument)?.PLATFORM_POSTGRES_PORT;
  const given = new URL(env.databaseUrl);
  if (!port || !fs.existsSync(path.join(dir, 'PG_VERSION')) || given.host !== `127.0.0.1:${port}`) {
    throw new OperatorError(
      `The database at ${given.host} is not that of npm start on ${dataDir}: back up what is yours with its own tools`,
    );
  }
  return { url: databaseUrl('postgres', derivePassword(env.secretKey, 'postgres'), port, 'postgres'), dir };
}

/**
 * Writes a backup while the platform runs. Each disk has the state of its own moment, before the moment of the
 * databases. A sandbox that was created meanwhile is copied afterwards, so every row of the databases has its disk.
 * @param target must not exist; it exists when the backup is complete
 * @param copyDisk copies the disk of a sandbox to a file of its host; null when no process of the sandbox is there
 */
export async function writeBackup(options: {
  dataDir: string;
  target: string;
  hostId: string;
  secretKey: string;
  cluster: { url: string; dir: string };
  env: NodeJS.ProcessEnv;
  copyDisk: (sandboxId: SandboxId) => Promise<CopiedDisk | null>;
}): Promise<BackupNote & { maxFrozenMs: number }> {
  const { dataDir, target, cluster } = options;
  const unfinished = `${target}.unfinished`;
  // Hard links must be on the same file system as the originals, and each folder may be on another one.
  const [diskLinks, imageLinks] = ['oci', 'registry'].map((name) => path.join(dataDir, name, linksFolder)) as [
    string,
    string,
  ];
  const leftovers = [unfinished, diskLinks, imageLinks];
  for (const folder of leftovers) fs.rmSync(folder, { recursive: true, force: true });
  fs.mkdirSync(unfinished, { recursive: true, mode: 0o700 });
  try {
    const disks = new DiskBackup({
      from: path.join(dataDir, 'oci/sandboxes'),
      links: path.join(diskLinks, 'sandboxes'),
      to: path.join(unfinished, 'oci/sandboxes'),
      copyDisk: options.copyDisk,
    });
    // The links are made first, so that everything that the databases refer to is kept even if it is removed during the
    // copy.
    linkTree(path.join(dataDir, 'registry'), imageLinks);
    await disks.copyNew();
    disks.linkNew();
    reportProgress('copying the databases');
    const lsn = await copyCluster(cluster.url, cluster.dir, path.join(unfinished, 'postgres'));
    await disks.copyNew();
    disks.copyRecords();
    for (const name of fs.readdirSync(path.join(dataDir, 'oci')).filter((each) => hostFiles.includes(each))) {
      await copy(path.join(dataDir, 'oci', name), path.join(unfinished, 'oci', name));
    }
    reportProgress('copying the registry');
    linkTree(path.join(dataDir, 'registry'), imageLinks);
    await copy(imageLinks, path.join(unfinished, 'registry'));
    for (const name of plainFiles) await copy(path.join(dataDir, name), path.join(unfinished, name));
    await writeFileDurably(path.join(unfinished, 'secret-key'), `${options.secretKey}\n`);
    const note: BackupNote = {
      version: 1,
      createdAt: new Date().toISOString(),
      hostId: options.hostId,
      lsn,
      sandboxes: disks.copied,
      settings: settingsToKeep.filter((name) => options.env[name]),
    };
    await writeFileDurably(path.join(unfinished, noteFile), JSON.stringify(note, null, 2));
    await run('sync', ['--file-system', unfinished]);
    fs.renameSync(unfinished, target);
    return { maxFrozenMs: disks.maxFrozenMs, ...note };
  } finally {
    for (const folder of leftovers) fs.rmSync(folder, { recursive: true, force: true });
  }
}

/** Adds links to files without one. Blobs of a registry never change. Sockets and uploads are left out. */
function linkTree(from: string, to: string): void {
  if (!fs.existsSync(from)) return;
  fs.mkdirSync(to, { recursive: true });
  for (const entry of fs.readdirSync(from, { withFileTypes: true })) {
    const [source, target] = [path.join(from, entry.name), path.join(to, entry.name)];
    if (entry.isDirectory() && !notLinked.has(entry.name)) linkTree(source, target);
    else if (entry.isFile()) linkUnlessThere(source, target);
  }
}

/** A file may be removed before it is linked, because nothing refers to it any more. */
function linkUnlessThere(source: string, target: string): void {
  try {
    fs.linkSync(source, target);
  } catch (error) {
    if (!['EEXIST', 'ENOENT'].includes((error as NodeJS.ErrnoException).code ?? '')) throw error;
  }
}
