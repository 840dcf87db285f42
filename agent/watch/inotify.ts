import net from 'node:net';
import { Code } from '@connectrpc/connect';
import { release } from '../memory/released-bytes.ts';
import { checked, libc } from '../native/libc.ts';
import { ConnectError } from '../rpc/connect-error.ts';
import { isSystemError } from '../rpc/errors.ts';

/** Bits of an inotify event's mask. */
export const mask = {
  modify: 0x2,
  attributes: 0x4,
  movedFrom: 0x40,
  movedTo: 0x80,
  create: 0x100,
  delete: 0x200,
  deleteSelf: 0x400,
  moveSelf: 0x800,
  overflow: 0x4000,
  ignored: 0x8000,
  isDirectory: 0x40000000,
};

const wanted =
  mask.modify |
  mask.attributes |
  mask.movedFrom |
  mask.movedTo |
  mask.create |
  mask.delete |
  mask.deleteSelf |
  mask.moveSelf;
const onlyDirectory = 0x01000000;
const doNotFollow = 0x02000000;
const closeOnExec = 0o2000000;
const nonBlocking = 0o4000;
const eventHeadBytes = 16;
const readBytes = 64 * 1024;

/** An event of a watched directory; `name` is empty for the directory itself. */
export interface InotifyEvent {
  watch: number;
  mask: number;
  cookie: number;
  name: Buffer;
}

export interface InotifyListener {
  onEvent(event: InotifyEvent): void;
  /** The kernel's queue overflowed, so any event may be lost. */
  onOverflow(): void;
}

/**
 * One inotify instance for all watchers, because the kernel allows 128 instances per user. A directory with two
 * listeners has one watch descriptor, and each listener gets its events.
 */
class Inotify {
  #fd = -1;
  readonly #listeners = new Map<number, Set<InotifyListener>>();

  /**
   * Watches one directory. Returns its number, which is the same for the same directory.
   * @throws errno; {ConnectError} `resource_exhausted` when the kernel's limit of watches is reached
   */
  add(path: string | Buffer, listener: InotifyListener): number {
    if (this.#fd < 0) this.#open();
    const flags = wanted | onlyDirectory | doNotFollow;
    const watch = added(libc().inotify_add_watch(this.#fd, path, flags), path);
    const listeners = this.#listeners.get(watch);
    if (listeners) listeners.add(listener);
    else this.#listeners.set(watch, new Set([listener]));
    return watch;
  }

  remove(watch: number, listener: InotifyListener): void {
    const listeners = this.#listeners.get(watch);
    if (!listeners?.delete(listener) || listeners.size > 0) return;
    this.#listeners.delete(watch);
    // This fails when the directory is gone, together with its watch.
    libc().inotify_rm_watch(this.#fd, watch);
  }

  /**
   * Node cannot open an inotify descriptor as a stream, but it can open a pipe. So this opens a pipe, and replaces its
   * descriptor with the inotify descriptor by dup3(2) before the first read.
   */
  #open(): void {
    const inotify = checked('inotify_init1', libc().inotify_init1(closeOnExec | nonBlocking));
    const pipe = Buffer.alloc(8);
    try {
      checked('pipe2', libc().pipe2(pipe, closeOnExec));
    } catch (error) {
      libc().close(inotify);
      throw error;
    }
    const [readEnd, writeEnd] = [pipe.readInt32LE(0), pipe.readInt32LE(4)];
    const socket = new net.Socket({
      fd: readEnd,
      readable: true,
      writable: false,
      manualStart: true,
      onread: {
        buffer: Buffer.allocUnsafeSlow(readBytes),
        callback: (length: number, bytes: Buffer) => this.#read(bytes, length),
      },
    } as net.SocketConstructorOpts);
    checked('dup3', libc().dup3(inotify, readEnd, closeOnExec));
    libc().close(inotify);
    libc().close(writeEnd);
    this.#fd = readEnd;
    socket.resume();
  }

  #read(bytes: Buffer, length: number): boolean {
    for (let at = 0; at < length; ) {
      const watch = bytes.readInt32LE(at);
      const eventMask = bytes.readUInt32LE(at + 4);
      const cookie = bytes.readUInt32LE(at + 8);
      const nameLength = bytes.readUInt32LE(at + 12);
      const nameAt = at + eventHeadBytes;
      at = nameAt + nameLength;
      if (eventMask & mask.overflow) {
        for (const listener of new Set([...this.#listeners.values()].flatMap((set) => [...set]))) listener.onOverflow();
        continue;
      }
      const listeners = this.#listeners.get(watch);
      if (!listeners) continue;
      if (eventMask & mask.ignored) this.#listeners.delete(watch);
      // The name is padded with NULs.
      const end = nameLength === 0 ? nameAt : bytes.indexOf(0, nameAt);
      const name = Buffer.from(bytes.subarray(nameAt, end));
      for (const listener of [...listeners]) listener.onEvent({ watch, mask: eventMask, cookie, name });
    }
    release(bytes.subarray(0, length));
    return true;
  }
}

/** The text of the errno, "no space left on device", would be about disks. */
function added(watch: number, path: string | Buffer): number {
  try {
    return checked('inotify_add_watch', watch, String(path));
  } catch (error) {
    if (!isSystemError(error) || error.code !== 'ENOSPC') throw error;
    throw new ConnectError(`${path}: the kernel has no more watches`, Code.ResourceExhausted);
  }
}

export const inotify = new Inotify();
