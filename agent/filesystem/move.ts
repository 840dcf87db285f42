import fs from 'node:fs/promises';
import path from 'node:path';
import { Code } from '@connectrpc/connect';
import { ConnectError } from '../rpc/connect-error.ts';
import { copyTree } from './copy-tree.ts';
import { makeFolders } from './make-folders.ts';
import { systemPath } from './path.ts';
import type { Owner } from './view.ts';

/**
 * Moves `source` to `destination`, replaces an existing entry, and makes missing parents of that owner. On one file system this is a
 * rename. An entry that rename cannot replace is first renamed to another name, and restored when the move fails.
 * @throws errno; {ConnectError} `invalid_argument` when one path contains the other
 */
export async function move(source: string, destination: string, owner?: Owner): Promise<void> {
  const from = Buffer.from(systemPath(source));
  const to = Buffer.from(systemPath(destination));
  await fs.lstat(from);
  if (source === destination) return;
  if (`${destination}/`.startsWith(`${source}/`)) {
    throw new ConnectError(`cannot move ${source} into itself`, Code.InvalidArgument);
  }
  if (`${source}/`.startsWith(`${destination}/`)) {
    throw new ConnectError(`cannot move ${source} over a directory that holds it`, Code.InvalidArgument);
  }
  await makeFolders(path.dirname(destination), owner);
  const partial = Buffer.from(systemPath(nameBeside(destination)));
  const aside = Buffer.from(systemPath(nameBeside(destination)));
  try {
    await renameOrCopy(from, to, partial);
  } catch (error) {
    if (!inTheWay.has((error as NodeJS.ErrnoException).code ?? '')) throw error;
    await fs.rename(to, aside);
    try {
      await renameOrCopy(from, to, partial);
    } catch (failure) {
      await fs.rename(aside, to);
      throw failure;
    }
    await fs.rm(aside, { recursive: true, force: true });
  }
}

/** The errors of rename(2) and mkdir(2) if the destination cannot be replaced in one step. */
const inTheWay = new Set(['ENOTEMPTY', 'EEXIST', 'EISDIR', 'ENOTDIR']);

async function renameOrCopy(from: Buffer, to: Buffer, partial: Buffer): Promise<void> {
  try {
    await fs.rename(from, to);
    return;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EXDEV') throw error;
  }
  try {
    await copyTree(from, partial);
    await fs.rename(partial, to);
  } catch (error) {
    await fs.rm(partial, { recursive: true, force: true });
    throw error;
  }
  await fs.rm(from, { recursive: true, force: true });
}

/** An unused name in the same directory. */
function nameBeside(destination: string): string {
  return path.join(path.dirname(destination), `.move-${process.pid}-${process.hrtime.bigint().toString(36)}`);
}
