import { existsSync, mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { runCommand } from '../process/command.ts';
import { ballastFiles, hasSpaceToAdmit, readDiskSpace } from './disk-space.ts';
import { isOutOfSpace } from './out-of-space.ts';

/** With less free space than this, the platform's own writes are about to fail. */
const emergencyBytes = 24 * 1024 ** 2;
const emergencyInodes = 48;

/**
 * Makes the missing parts of a folder's ballast if there is space for them: a file of allocated blocks and a folder of
 * empty files. Removing the ballast gives the platform space when the rest of the disk is used up.
 */
export async function ensureBallast(folder: string): Promise<void> {
  const space = readDiskSpace(folder);
  if (!hasSpaceToAdmit(space)) return;
  const files = ballastFiles(folder);
  const { ballastBytes, ballastInodes } = space.limits;
  mkdirSync(files.folder, { recursive: true, mode: 0o700 });
  try {
    if (space.freeBytes - space.bytes > 0) {
      // File systems that cannot preallocate fill the file with zeros.
      await runCommand('fallocate', ['--posix', '--length', String(ballastBytes), files.space]);
    }
    if (!existsSync(files.inodes)) makeInodes(files.inodes, ballastInodes);
  } catch (error) {
    if (!isOutOfSpace(error)) throw error;
    releaseBallast(folder);
  }
}

/**
 * Removes the ballast when the disk is so full that the platform's own writes are about to fail.
 * @returns whether there was a ballast
 */
export function releaseBallastIfFull(folder: string): boolean {
  if (!existsSync(folder)) return false;
  const { freeBytes, freeInodes } = readDiskSpace(folder);
  if (freeBytes >= emergencyBytes && freeInodes >= emergencyInodes) return false;
  return releaseBallast(folder);
}

function releaseBallast(folder: string): boolean {
  const files = ballastFiles(folder);
  if (!existsSync(files.folder)) return false;
  rmSync(files.space, { force: true });
  rmSync(files.folder, { recursive: true, force: true });
  return true;
}

/** Renamed last, so that the folder exists only when it is complete. */
function makeInodes(folder: string, count: number): void {
  const draft = `${folder}.draft`;
  rmSync(draft, { recursive: true, force: true });
  mkdirSync(draft);
  for (let number = 0; number < count; number += 1) writeFileSync(path.join(draft, String(number)), '');
  renameSync(draft, folder);
}
