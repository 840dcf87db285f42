import { randomBytes } from 'node:crypto';
import { mkdir, realpath } from 'node:fs/promises';
import path from 'node:path';
import { z } from 'zod';
import { writeFileDurably } from '../../platform/config/durable-file.ts';
import { readDocumentOrSetAside } from '../../platform/config/readable-document.ts';
import type { DriverLogger } from '../driver-logger.ts';
import { copyOfShimsBelow } from './live-shims.ts';

/** Above the ids of Docker and systemd, and below the ids of sandboxes. */
const firstStorageGid = 0x6000_0000;

/** One installation. A machine may have several. Its name is used outside its own folder. */
export interface Copy {
  id: string;
  /** Parent cgroup of its sandboxes, in every hierarchy. */
  cgroup: string;
  /** nftables table (family inet). */
  table: string;
  /**
   * The copy's own interface, which has the gateway address. Interfaces of sandboxes are `<interface>-<address part>`.
   */
  interface: string;
  /** The group of the programs that mount buckets. No other program has it. */
  storageGid: number;
  folder: string;
  sandboxesFolder: string;
  poolFolder: string;
  trashFolder: string;
  /** The folder of disk copies and of layers made of them. */
  buildsFolder: string;
  /** A folder for operators: files that were in the place of a sandbox's folder are moved there. */
  damagedFolder: string;
}

const copySchema = z.object({ id: z.string().regex(/^[0-9a-f]{6}$/), folder: z.string() });

/**
 * Opens or makes the copy in `dataDir`. A data folder that was copied to another place gets a new name, so that two
 * copies never confuse their resources.
 */
export async function openCopy(dataDir: string, logger: DriverLogger): Promise<Copy> {
  await mkdir(path.join(dataDir, 'oci'), { recursive: true, mode: 0o700 });
  const folder = await realpath(path.join(dataDir, 'oci'));
  const file = path.join(folder, 'copy.json');
  const known = readDocumentOrSetAside(file, copySchema, (problem) => {
    logger.error(
      { problem },
      'the name of this copy was damaged; it is read from running sandboxes of the copy, or else made again',
    );
  });
  // If the name is lost, the running sandboxes of this folder still have it.
  const id = known?.folder === folder ? known.id : (copyOfShimsBelow(folder) ?? randomBytes(3).toString('hex'));
  if (known?.folder !== folder) await writeFileDurably(file, JSON.stringify({ id, folder }));
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
    buildsFolder: path.join(folder, 'builds'),
    damagedFolder: path.join(folder, 'damaged'),
  };
  const folders = [copy.sandboxesFolder, copy.poolFolder, copy.trashFolder, copy.buildsFolder];
  for (const each of folders) await mkdir(each, { recursive: true });
  return copy;
}
