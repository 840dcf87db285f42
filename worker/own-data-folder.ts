import { existsSync, readdirSync } from 'node:fs';
import path from 'node:path';
import { writeFileDurablySync } from '../config/durable-file.ts';
import type { Orm } from '../db/orm.ts';
import { countDisksOn } from '../db/repositories/hosts.ts';

/**
 * Refuses a data folder that is not the one with this host's disks, such as the empty mount point of a disk that is not
 * mounted. Otherwise the host would report each of its sandboxes as lost, and their disks would be removed once they
 * are back.
 * @throws {Error} that says what to do
 */
export async function requireOwnDataFolder(orm: Orm, hostId: string, dataDir: string): Promise<void> {
  const file = path.join(dataDir, 'host-id');
  if (existsSync(file)) return;
  const disks = await countDisksOn(orm.em, hostId);
  if (disks > 0 && !hasSandboxes(dataDir)) {
    throw new Error(
      `${dataDir} is empty, but host ${hostId} has the disks of ${disks} sandboxes. Mount its data disk, or write ` +
        `${hostId} to ${file} to give these sandboxes up as lost`,
    );
  }
  writeFileDurablySync(file, hostId);
}

function hasSandboxes(dataDir: string): boolean {
  const folder = path.join(dataDir, 'oci', 'sandboxes');
  return existsSync(folder) && readdirSync(folder).length > 0;
}
