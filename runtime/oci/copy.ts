import { randomBytes } from 'node:crypto';
import { mkdir, readFile, realpath } from 'node:fs/promises';
import path from 'node:path';
import { writeFileAtomically } from './sandbox-folder.ts';

/** Above what Docker and systemd take, below the ids of sandboxes. */
const firstStorageGid = 0x6000_0000;

/** One platform on a machine that may hold several: its name everywhere outside its own folder, and its folders. */
export interface Copy {
  id: string;
  /** Parent cgroup of its sandboxes, in every hierarchy. */
  cgroup: string;
  /** nftables table (family inet). */
  table: string;
  /** Its own interface, which holds the gateway address; sandboxes' are `<interface>-<address part>`. */
  interface: string;
  /** Group of the programs that mount buckets; nobody else's. */
  storageGid: number;
  folder: string;
  sandboxesFolder: string;
  poolFolder: string;
  trashFolder: string;
}

/**
 * Opens or makes the copy that lives in `dataDir`. A data folder that was copied elsewhere gets a name of its own, so
 * that two copies never take each other's things for theirs.
 */
export async function openCopy(dataDir: string): Promise<Copy> {
  await mkdir(path.join(dataDir, 'oci'), { recursive: true, mode: 0o700 });
  const folder = await realpath(path.join(dataDir, 'oci'));
  const file = path.join(folder, 'copy.json');
  const known = await readJson<{ id: string; folder: string }>(file);
  const id = known?.folder === folder ? known.id : randomBytes(3).toString('hex');
  if (known?.folder !== folder) await writeFileAtomically(file, JSON.stringify({ id, folder }));
  const copy: Copy = {
    id,
    cgroup: `sandboxes-${id}`,
    table: `sandboxes_${id}`,
    interface: `sb${id}`,
    storageGid: firstStorageGid + Number.parseInt(id, 16),
    folder,
    sandboxesFolder: path.join(folder, 'sandboxes'),
    poolFolder: path.join(folder, 'pool'),
    trashFolder: path.join(folder, 'trash'),
  };
  for (const each of [copy.sandboxesFolder, copy.poolFolder, copy.trashFolder]) await mkdir(each, { recursive: true });
  return copy;
}

/** The document in `file`; null when there is none. */
export async function readJson<Document>(file: string): Promise<Document | null> {
  try {
    return JSON.parse(await readFile(file, 'utf8')) as Document;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw error;
  }
}
