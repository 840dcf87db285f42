import { readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { type ProcessIdentity, processIdentity } from '../process/process-identity.ts';

/** A shim according to the kernel, independent of the files in its sandbox's folder. */
export interface LiveShim {
  process: ProcessIdentity;
  /** The name of the container and its control group. */
  instance: string;
  address: string;
  /** The tree of its image. */
  image: string;
  /** The host's end of the sandbox's link. */
  interface: string;
  /** The folder in which it was started, with its current name. For a deleted folder, its last name. */
  folder: string;
  isFolderDeleted: boolean;
}

const deletedMark = ' (deleted)';

/** The running shims of one copy. */
export function liveShims(copy: { interface: string }): LiveShim[] {
  return shimsWith(`interface=${copy.interface}-`);
}

/** The id of the copy with sandboxes that run from below `folder`. Null when there are none. */
export function copyOfShimsBelow(folder: string): string | null {
  const shim = shimsWith('interface=sb').find((each) => each.folder.startsWith(`${folder}/`));
  return /^sb([0-9a-f]{6})-/.exec(shim?.interface ?? '')?.[1] ?? null;
}

function shimsWith(interfaceWord: string): LiveShim[] {
  const found: LiveShim[] = [];
  for (const name of readdirSync('/proc')) {
    if (!/^\d+$/.test(name)) continue;
    const shim = readShim(Number(name), interfaceWord);
    if (shim) found.push(shim);
  }
  return found;
}

function readShim(pid: number, interfaceWord: string): LiveShim | null {
  if (!isOfHost(pid)) return null;
  const words = readIfThere(`/proc/${pid}/cmdline`)?.split('\0') ?? [];
  if (!words.some((word) => word.startsWith(interfaceWord)) || !isHostRoot(pid)) return null;
  const process = processIdentity(pid);
  const folder = readFolder(pid);
  if (!process || folder === null) return null;
  const value = (key: string) => words.find((word) => word.startsWith(`${key}=`))?.slice(key.length + 1) ?? '';
  const named = { instance: value('id'), address: value('address'), image: value('image') };
  return { process, ...named, interface: value('interface'), ...folder };
}

/**
 * Whether a process is in the host's user namespace, which those of sandboxes are not. Ask this before the command line
 * is read: a process that holds the lock of its memory lets each reader of it wait.
 */
export function isOfHost(pid: number): boolean {
  try {
    return readlinkSync(`/proc/${pid}/ns/user`) === ownUserNamespace;
  } catch (error) {
    // A process that may do more than this one is none of ours.
    if (isGone(error) || (error as NodeJS.ErrnoException).code === 'EACCES') return false;
    throw error;
  }
}

const ownUserNamespace = readlinkSync('/proc/self/ns/user');

/** Processes can give themselves any name, but those of sandboxes are never the host's root. */
function isHostRoot(pid: number): boolean {
  return /^Uid:\t0\t0\t0\t0$/m.test(readIfThere(`/proc/${pid}/status`) ?? '');
}

function readFolder(pid: number): Pick<LiveShim, 'folder' | 'isFolderDeleted'> | null {
  try {
    const folder = readlinkSync(`/proc/${pid}/cwd`);
    const isFolderDeleted = folder.endsWith(deletedMark);
    return { folder: isFolderDeleted ? folder.slice(0, -deletedMark.length) : folder, isFolderDeleted };
  } catch (error) {
    if (isGone(error)) return null;
    throw error;
  }
}

function readIfThere(file: string): string | null {
  try {
    return readFileSync(file, 'latin1');
  } catch (error) {
    if (isGone(error)) return null;
    throw error;
  }
}

const isGone = (error: unknown) => ['ENOENT', 'ESRCH'].includes((error as NodeJS.ErrnoException).code ?? '');
