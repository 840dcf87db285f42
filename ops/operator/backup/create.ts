import { execFile } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import { z } from 'zod';
import { writeFileDurably } from '../../../config/durable-file.ts';
import { readDocument } from '../../../config/readable-document.ts';
import { databaseUrl } from '../../local-stack/embedded/postgres.ts';
import { derivePassword } from '../../local-stack/supervisor/data-folder.ts';
import { OperatorError, reportProgress } from '../admin/operator-command.ts';
import { type BackupNote, noteFile } from './backup-note.ts';
import { copyCluster } from './cluster-copy.ts';

const run = promisify(execFile);
/** Copies with owners, modes and times; holes stay holes, and file systems that can share blocks do. */
const copyAll = ['--archive', '--sparse=always', '--reflink=auto'];

/** Kept as they are, where they are. `secret-key` is written from the settings. */
const plainFiles = ['host-id', 'ports.json', 'platform.env', 'ca', 'mails'];
/** Of a sandbox. What else is in its folder is about processes, which no backup has. */
const sandboxFiles = ['disk.ext4', 'sandbox.json'];
/** Of a host: its network, and its ports that lead to sandboxes. */
const hostFiles = ['network.json', 'udp-ports.json'];
const linksFolder = 'backup-links';
const notLinked = new Set(['_uploads', linksFolder]);
/** Settings without a file of the data folder. */
const settingsToKeep = ['PLATFORM_CODEC_KEYS', 'PLATFORM_PLANS_FILE', 'PLATFORM_HOST_ID', 'PLATFORM_BASE_DOMAIN'];

const portsDocument = z.record(z.string(), z.int());

/** Where the databases of `npm start` are. @throws {OperatorError} they are the operator's own */
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
 * Writes a backup. Nothing may run in a sandbox meanwhile: disks and databases are to be of one instant.
 * @param target must not exist; it does once the backup is whole
 * @param resume lets sandboxes run again; called as soon as their disks are copied
 */
export async function writeBackup(options: {
  dataDir: string;
  target: string;
  hostId: string;
  wasDraining: boolean;
  secretKey: string;
  cluster: { url: string; dir: string };
  env: NodeJS.ProcessEnv;
  resume: () => Promise<void>;
}): Promise<BackupNote> {
  const { dataDir, target, cluster } = options;
  const unfinished = `${target}.unfinished`;
  // Beside the originals: links do not lead to other file systems, and each folder may be one.
  const [diskLinks, imageLinks] = ['oci', 'registry'].map((name) => path.join(dataDir, name, linksFolder)) as [
    string,
    string,
  ];
  const leftovers = [unfinished, diskLinks, imageLinks];
  for (const folder of leftovers) fs.rmSync(folder, { recursive: true, force: true });
  fs.mkdirSync(unfinished, { recursive: true, mode: 0o700 });
  try {
    // Links first: what the databases know at their instant is there even if it is removed while copies are made.
    const sandboxes = linkDisks(path.join(dataDir, 'oci/sandboxes'), path.join(diskLinks, 'sandboxes'));
    linkTree(path.join(dataDir, 'registry'), imageLinks);
    // What the kernel holds back of mounted disks goes to their files.
    await run('sync');
    reportProgress('copying the databases');
    const lsn = await copyCluster(cluster.url, cluster.dir, path.join(unfinished, 'postgres'));
    reportProgress(`copying the disks of ${sandboxes.length} sandboxes`);
    await copy(diskLinks, path.join(unfinished, 'oci'));
    for (const name of fs.readdirSync(path.join(dataDir, 'oci')).filter((each) => hostFiles.includes(each))) {
      await copy(path.join(dataDir, 'oci', name), path.join(unfinished, 'oci', name));
    }
    await options.resume();
    reportProgress('copying the registry');
    linkTree(path.join(dataDir, 'registry'), imageLinks);
    await copy(imageLinks, path.join(unfinished, 'registry'));
    for (const name of plainFiles) await copy(path.join(dataDir, name), path.join(unfinished, name));
    await writeFileDurably(path.join(unfinished, 'secret-key'), `${options.secretKey}\n`);
    const note: BackupNote = {
      version: 1,
      createdAt: new Date().toISOString(),
      hostId: options.hostId,
      wasDraining: options.wasDraining,
      lsn,
      sandboxes,
      settings: settingsToKeep.filter((name) => options.env[name]),
    };
    await writeFileDurably(path.join(unfinished, noteFile), JSON.stringify(note, null, 2));
    await run('sync', ['--file-system', unfinished]);
    fs.renameSync(unfinished, target);
    return note;
  } finally {
    for (const folder of leftovers) fs.rmSync(folder, { recursive: true, force: true });
  }
}

/** @returns the sandboxes that have a disk */
function linkDisks(from: string, to: string): string[] {
  const names = fs.existsSync(from) ? fs.readdirSync(from) : [];
  fs.mkdirSync(to, { recursive: true, mode: 0o700 });
  return names.filter((name) => {
    const files = sandboxFiles.filter((file) => fs.existsSync(path.join(from, name, file)));
    if (!files.includes('disk.ext4')) return false;
    fs.mkdirSync(path.join(to, name), { mode: 0o700 });
    for (const file of files) fs.linkSync(path.join(from, name, file), path.join(to, name, file));
    return true;
  });
}

/** Adds links to the files that are not linked yet. Blobs of a registry never change; sockets and uploads are left out. */
function linkTree(from: string, to: string): void {
  if (!fs.existsSync(from)) return;
  fs.mkdirSync(to, { recursive: true });
  for (const entry of fs.readdirSync(from, { withFileTypes: true })) {
    const [source, target] = [path.join(from, entry.name), path.join(to, entry.name)];
    if (entry.isDirectory() && !notLinked.has(entry.name)) linkTree(source, target);
    else if (entry.isFile()) linkUnlessThere(source, target);
  }
}

/** A file may go before it is linked: nothing refers to it any more then. */
function linkUnlessThere(source: string, target: string): void {
  try {
    fs.linkSync(source, target);
  } catch (error) {
    if (!['EEXIST', 'ENOENT'].includes((error as NodeJS.ErrnoException).code ?? '')) throw error;
  }
}

async function copy(from: string, to: string): Promise<void> {
  if (fs.existsSync(from)) await run('cp', [...copyAll, '--no-target-directory', from, to]);
}
