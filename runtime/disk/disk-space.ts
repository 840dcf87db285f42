import { existsSync, statfsSync, statSync } from 'node:fs';
import path from 'node:path';
import { DriverError } from '../driver.ts';
import { type DiskLimits, diskLimits } from './disk-limits.mjs';

/** The free space on the file system of a folder. */
export interface DiskSpace {
  /** The free bytes, less the missing part of the ballast. */
  bytes: number;
  /** The free inodes, less the missing part of the ballast. `Infinity` on file systems without a limit of inodes. */
  inodes: number;
  /** The free bytes, regardless of the ballast. */
  freeBytes: number;
  freeInodes: number;
  limits: DiskLimits;
}

/** The files of the ballast, below the folder that it protects. */
export const ballastFiles = (folder: string) => ({
  folder: path.join(folder, 'reserve'),
  space: path.join(folder, 'reserve', 'space'),
  inodes: path.join(folder, 'reserve', 'inodes'),
});

/** Makes only a few system calls, so it may be called many times a second. */
export function readDiskSpace(folder: string): DiskSpace {
  const { bavail, bsize, blocks, ffree, files } = statfsSync(folder);
  const limits = diskLimits(blocks * bsize, files);
  const held = ballastFiles(folder);
  const heldBytes = (statSync(held.space, { throwIfNoEntry: false })?.blocks ?? 0) * 512;
  const missingInodes = existsSync(held.inodes) ? 0 : limits.ballastInodes;
  const freeBytes = bavail * bsize;
  return {
    bytes: freeBytes - Math.max(0, limits.ballastBytes - heldBytes),
    inodes: files === 0 ? Number.POSITIVE_INFINITY : ffree - missingInodes,
    freeBytes,
    freeInodes: files === 0 ? Number.POSITIVE_INFINITY : ffree,
    limits,
  };
}

/** Whether the disk has space for new sandboxes. */
export function hasSpaceToAdmit({ bytes, inodes, limits }: DiskSpace): boolean {
  return bytes >= limits.admitBytes && inodes >= limits.admitInodes;
}

/** @throws {DriverError} `host_disk_full` when the file system of the disks has no room for one more sandbox */
export function requireHostDisk(folder: string): void {
  if (hasSpaceToAdmit(readDiskSpace(folder))) return;
  throw new DriverError('host_disk_full', "The host's disk is full", { retryable: true });
}
