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
/** Copies owners, modes and times, keeps holes, and shares blocks on file systems that can. */
const copyAll = ['--archive', '--sparse=always', '--reflink=auto'];

/** Files that are copied unchanged. `secret-key` is written from the settings. */
const plainFiles = ['host-id', 'ports.json', 'platform.env', 'ca', 'mails'];
/** The files of a sandbox. The others in its folder are about processes, which a backup does not contain. */
const sandboxFiles = ['disk.ext4', 'sandbox.json'];
/** The files of a host: its network, and its ports that are forwarded to sandboxes. */
const hostFiles = ['network.json', 'udp-ports.json'];
const linksFolder = 'backup-links';
const notLinked = new Set(['_uploads', linksFolder]);
/** Settings that are in no file of the data folder. */
const settingsToKeep = ['PLATFORM_CODEC_KEYS', 'PLATFORM_PLANS_FILE', 'PLATFORM_HOST_ID', 'PLATFORM_BASE_DOMAIN'];

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
 * Writes a backup. No sandbox may run meanwhile, because disks and databases must be of the same time.
 * @param target must not exist; it exists when the backup is complete
 * @param resume allows sandboxes to run again; called as soon as their disks are copied
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
  // Hard links must be on the same file system as the originals, and each folder may be on another one.
  const [diskLinks, imageLinks] = ['oci', 'registry'].map((name) => path.join(dataDir, name, linksFolder)) as [
    string,
    string,
  ];
  const leftovers = [unfinished, diskLinks, imageLinks];
  for (const folder of leftovers) fs.rmSync(folder, { recursive: true, force: true });
  fs.mkdirSync(unfinished, { recursive: true, mode: 0o700 });
  try {
    // The links are made first, so that everything that the databases refer to is kept even if it is removed during the
    // copy.
    const sandboxes = linkDisks(path.join(dataDir, 'oci/sandboxes'), path.join(diskLinks, 'sandboxes'));
    linkTree(path.join(dataDir, 'registry'), imageLinks);
    // Writes the kernel's dirty pages of mounted disks to their files.
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

/** @returns the sandboxes with a disk */
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

async function copy(from: string, to: string): Promise<void> {
  if (fs.existsSync(from)) await run('cp', [...copyAll, '--no-target-directory', from, to]);
}
