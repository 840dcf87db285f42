import net from 'node:net';
import tty from 'node:tty';
import { libc } from '../native/libc.ts';

const firstBytes = 16 * 1024;
const mostBytes = 256 * 1024;
const setPipeSize = 1031;
const pipeBytes = 1024 * 1024;
/** Of poll(2). */
const readable = 1;

/**
 * The readable end of a process's pipe or terminal. It is read into one buffer, which grows for a process that fills
 * it: `onBytes` gets a view that is good until it returns true, or until `resume()` when it returned false.
 */
export class OutputPipe {
  private readonly fd: number;
  private readonly socket: net.Socket;
  private closed = false;
  private buffer: Buffer = Buffer.allocUnsafeSlow(firstBytes);

  constructor(fd: number, isTerminal: boolean, onBytes: (bytes: Buffer) => boolean, onEnd: () => void) {
    this.fd = fd;
    const onread = {
      buffer: () => this.buffer,
      callback: (length: number, buffer: Uint8Array) => {
        const bytes = Buffer.from(buffer.buffer, buffer.byteOffset, length);
        if (length === this.buffer.length && length < mostBytes) {
          this.buffer = Buffer.allocUnsafeSlow(length * 4);
          // The writer is woken less often; beyond the user's share of pipe memory it stays as it is.
          if (!isTerminal) libc().fcntl(fd, setPipeSize, pipeBytes);
        }
        return onBytes(bytes);
      },
    };
    this.socket = isTerminal
      ? new tty.ReadStream(fd, { onread } as net.SocketConstructorOpts)
      : new net.Socket({ fd, readable: true, writable: false, onread } as net.SocketConstructorOpts);
    // A terminal whose last process has gone reads as EIO.
    this.socket.on('error', () => this.socket.destroy());
    this.socket.on('end', () => this.socket.destroy());
    this.socket.once('close', () => {
      this.closed = true;
      onEnd();
    });
    this.socket.resume();
  }

  /** Reads on, after `onBytes` has returned false. */
  resume(): void {
    this.socket.resume();
  }

  /**
   * Whether all that was written so far has been read. poll(2) knows; a terminal's count of bytes does not, as it
   * leaves out what the kernel has yet to hand over.
   */
  get isEmpty(): boolean {
    if (this.closed) return true;
    const asked = Buffer.alloc(8);
    asked.writeInt32LE(this.fd, 0);
    asked.writeInt16LE(readable, 4);
    return libc().poll(asked, 1, 0) <= 0 || (asked.readInt16LE(6) & readable) === 0;
  }

  /** Writes to a terminal. */
  write(bytes: Uint8Array, done: (error?: Error | null) => void): void {
    this.socket.write(bytes, done);
  }
}
