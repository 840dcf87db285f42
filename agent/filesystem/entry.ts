import fs from 'node:fs';
import path from 'node:path';
import type { MessageInitShape } from '@bufbuild/protobuf';
import { type EntryInfoSchema, FileType } from '../proto/gen/sandboxagent_pb.js';
import { groups, users } from './owners.ts';
import { nameOfBytes, systemPath } from './path.ts';

const kindMask = 0o170000;
const kindSymlink = 0o120000;
const kindLetters: Record<number, string> = {
  9604: 'd',
  21609: 'l',
  4802: 'c',
  14406: 'b',
  2401: 'p',
  26411: 's',
};

/** `drwxr-xr-x`, as `ls -l` shows it. */
export function permissionsText(mode: number): string {
  let text = kindLetters[mode & kindMask] ?? '-';
  for (let shift = 6; shift >= 0; shift -= 3) {
    const bits = mode >> shift;
    text += bits & 4 ? 'r' : '-';
    text += bits & 2 ? 'w' : '-';
    const special = mode & (shift === 6 ? 0o4000 : shift === 3 ? 0o2000 : 0o1000);
    const letter = shift === 0 ? 't' : 's';
    if (special) text += bits & 1 ? letter : letter.toUpperCase();
    else text += bits & 1 ? 'x' : '-';
  }
  return text;
}

/** Regular files are `FILE`, directories `DIRECTORY`; sockets, pipes and devices are neither. */
function typeOfMode(mode: number): FileType {
  const kind = mode & kindMask;
  if (kind === 0o100000) return FileType.FILE;
  if (kind === 0o040000) return FileType.DIRECTORY;
  return FileType.UNSPECIFIED;
}

export type EntryInit = MessageInitShape<typeof EntryInfoSchema>;

/**
 * What is at `absolutePath`, a symbolic link itself and not what it points to, but with the `type` of its target, so
 * that a link to a directory can be walked into. A dangling link has no type.
 * @throws errno of lstat(2)
 */
export function entryAt(absolutePath: string): EntryInit {
  const target = systemPath(absolutePath);
  return entryOf(absolutePath, target, fs.lstatSync(target));
}

export function entryOf(absolutePath: string, target: string | Buffer, stat: fs.Stats): EntryInit {
  const seconds = Math.floor(stat.mtimeMs / 1000);
  const entry: EntryInit = {
    name: path.basename(absolutePath),
    type: typeOfMode(stat.mode),
    path: absolutePath,
    size: BigInt(stat.size),
    mode: stat.mode & 0o7777,
    permissions: permissionsText(stat.mode),
    owner: users.nameOf(stat.uid),
    group: groups.nameOf(stat.gid),
    modifiedTime: { seconds: BigInt(seconds), nanos: Math.floor((stat.mtimeMs - seconds * 1000) * 1000) * 1000 },
  };
  if ((stat.mode & kindMask) === kindSymlink) {
    entry.symlinkTarget = nameOfBytes(fs.readlinkSync(target, 'buffer'));
    const reached = statOrNothing(target);
    entry.type = reached ? typeOfMode(reached.mode) : FileType.UNSPECIFIED;
  }
  return entry;
}

function statOrNothing(target: string | Buffer): fs.Stats | undefined {
  try {
    return fs.statSync(target);
  } catch {
    // Dangling, a loop, or nothing this user may see: a link without a type.
    return undefined;
  }
}
