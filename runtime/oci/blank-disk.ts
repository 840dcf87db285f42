import { closeSync, existsSync, fstatSync, openSync, readSync } from 'node:fs';
import { mkdir, open, rm } from 'node:fs/promises';
import path from 'node:path';
import { renameDurably } from '../../platform/config/durable-file.ts';
import { runCommand } from '../process/command.ts';

const bytesPerGb = 1024 ** 3;
const building = new Map<string, Promise<string>>();

/**
 * An empty file system of this size, as a sparse file of a few hundred KiB. Each new disk is a copy of it. Made once
 * for each size.
 */
export function ensureBlankDisk(folder: string, storageGb: number): Promise<string> {
  const file = path.join(folder, 'blank', `${storageGb}gb.ext4`);
  if (isBlankDisk(file, storageGb)) return Promise.resolve(file);
  const inProgress = building.get(file);
  if (inProgress) return inProgress;
  const work = makeBlankDisk(file, storageGb).finally(() => building.delete(file));
  building.set(file, work);
  return work;
}

/**
 * Whether the file is a result of `makeBlankDisk`: it has the right size, and ext4's magic number in its superblock.
 */
function isBlankDisk(file: string, storageGb: number): boolean {
  if (!existsSync(file)) return false;
  const mark = Buffer.alloc(2);
  const descriptor = openSync(file, 'r');
  try {
    readSync(descriptor, mark, 0, 2, 1024 + 56);
    return mark.readUInt16LE() === 0xef53 && fstatSync(descriptor).size === sizeBytes(storageGb);
  } finally {
    closeSync(descriptor);
  }
}

const sizeBytes = (storageGb: number) => Math.round(storageGb * bytesPerGb);

async function makeBlankDisk(file: string, storageGb: number): Promise<string> {
  const draft = `${file}.draft`;
  await mkdir(path.dirname(file), { recursive: true });
  await rm(draft, { force: true });
  const handle = await open(draft, 'wx', 0o600);
  await handle.truncate(sizeBytes(storageGb));
  await handle.close();
  // No blocks are reserved for root. Tables are marked as zeroed, because a hole in a file reads as zeros.
  const features = ['-O', '^resize_inode', '-m', '0', '-E', 'lazy_itable_init=1,lazy_journal_init=1'];
  await runCommand('mkfs.ext4', ['-q', '-F', ...features, draft]);
  await renameDurably(draft, file);
  return file;
}
