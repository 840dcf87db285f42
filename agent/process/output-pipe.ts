import net from 'node:net';
import tty from 'node:tty';
import { release } from '../memory/released-bytes.ts';
import { checked, libc } from '../native/libc.ts';

const firstBytes = 16 * 1024;
const maxBytes = 256 * 1024;
const setPipeSize = 1031;
const countReadable = 0x541b;
const pipeBytes = 1024 * 1024;
/** POLLIN of poll(2). */
const readable = 1;

/**
 * The readable end of a process's pipe or terminal. All reads use one buffer, which grows when a read fills it.
 * `onBytes` gets a view of the buffer. The view is valid until `onBytes` returns true or, after false, until
 * `resume()`.
 */
export class OutputPipe {
  readonly #fd: number;
  readonly #socket: net.Socket;
  #closed = false;
  #buffer: Buffer = Buffer.allocUnsafeSlow(firstBytes);
  /** The last bytes for `onBytes` that were not released yet. */
  #handedOut: Buffer | null = null;

  constructor(fd: number, isTerminal: boolean, onBytes: (bytes: Buffer) => boolean, onEnd: () => void) {
    this.#fd = fd;
    const onread = {
      buffer: () => this.#buffer,
      callback: (length: number, buffer: Uint8Array) => {
        const bytes = Buffer.from(buffer.buffer, buffer.byteOffset, length);
        if (length === this.#buffer.length && length < maxBytes) {
          this.#buffer = Buffer.allocUnsafeSlow(length * 4);
          // A larger pipe wakes the writer less often. Beyond the user's share of pipe memory the call fails, which is
          // acceptable.
          if (!isTerminal) libc().fcntl(fd, setPipeSize, pipeBytes);
        }
        const readsOn = onBytes(bytes);
        if (readsOn) release(bytes);
        else this.#handedOut = bytes;
        return readsOn;
      },
    };
    this.#socket = isTerminal
      ? new tty.ReadStream(fd, { onread } as net.SocketConstructorOpts)
      : new net.Socket({ fd, readable: true, writable: false, onread } as net.SocketConstructorOpts);
    // Reading a terminal fails with EIO after its last process has ended.
    this.#socket.on('error', () => this.#socket.destroy());
    this.#socket.on('end', () => this.#socket.destroy());
    this.#socket.once('close', () => {
      this.#closed = true;
      onEnd();
    });
    this.#socket.resume();
  }

  /** Continues to read after `onBytes` has returned false. */
  resume(): void {
    if (this.#handedOut) release(this.#handedOut);
    this.#handedOut = null;
    this.#socket.resume();
  }

  /**
   * Whether everything that was written so far has been read. It uses poll(2), because a terminal's byte count
   * (FIONREAD) leaves out bytes that the kernel has not passed to the reader's side yet.
   */
  get isEmpty(): boolean {
    if (this.#closed) return true;
    const asked = Buffer.alloc(8);
    asked.writeInt32LE(this.#fd, 0);
    asked.writeInt16LE(readable, 4);
    return libc().poll(asked, 1, 0) <= 0 || (asked.readInt16LE(6) & readable) === 0;
  }

  /** The number of bytes in a pipe. */
  get waitingBytes(): number {
    if (this.#socket.destroyed) return 0;
    const count = Buffer.alloc(4);
    checked('ioctl', libc().ioctl(this.#fd, countReadable, count));
    return count.readInt32LE();
  }

  /** Writes to a terminal. */
  write(bytes: Uint8Array, done: (error?: Error | null) => void): void {
    this.#socket.write(bytes, done);
  }
}
