import { existsSync, statfsSync, statSync } from 'node:fs';
import path from 'node:path';
import { DriverError } from '../driver.ts';

/**
 * The reserve of a file system for the platform's own writes, and the limits at which its host acts. They are computed
 * from its size.
 */
export interface DiskLimits {
  /** Below this the host takes no sandbox and resumes none. */
  admitBytes: number;
  /** Below this the sandboxes that grow fastest are paused. */
  pauseBytes: number;
  /** Below this every sandbox is frozen, because the rest is for the platform. */
  reserveBytes: number;
  admitInodes: number;
  reserveInodes: number;
  /** The size of the files that are removed in an emergency; see `ballast.ts`. */
  ballastBytes: number;
  ballastInodes: number;
}

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

const mib = 1024 ** 2;
const clamp = (value: number, least: number, most: number) => Math.floor(Math.min(most, Math.max(least, value)));

/** The files of the ballast, below the folder that it protects. */
export const ballastFiles = (folder: string) => ({
  folder: path.join(folder, 'reserve'),
  space: path.join(folder, 'reserve', 'space'),
  inodes: path.join(folder, 'reserve', 'inodes'),
});

export function diskLimits(totalBytes: number, totalInodes: number): DiskLimits {
  const reserveBytes = clamp(totalBytes / 10, 128 * mib, 2048 * mib);
  const reserveInodes = clamp(totalInodes / 20, 250, 10_000);
  return {
    admitBytes: Math.floor(2.5 * reserveBytes),
    pauseBytes: Math.floor(1.75 * reserveBytes),
    reserveBytes,
    admitInodes: Math.floor(2.5 * reserveInodes),
    reserveInodes,
    ballastBytes: clamp(totalBytes / 32, 32 * mib, 256 * mib),
    ballastInodes: clamp(totalInodes / 64, 64, 1000),
  };
}

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
