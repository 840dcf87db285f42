import fs from 'node:fs';
import path from 'node:path';

/** After a failed write, the next attempt follows after this long. */
const retryMs = 500;

/**
 * A bounded log file: above its limit it becomes `<file>.1`, which replaces the previous one. Writing never throws:
 * while the disk is full, output is dropped and counted, and the count is written when there is space again.
 */
export class RotatingLog {
  readonly path: string;
  readonly #maxBytes: number;
  #descriptor: number | null = null;
  #bytes = 0;
  #droppedBytes = 0;
  #retryAtMs = 0;
  #closed = false;

  constructor(file: string, maxBytes = 20 * 1024 * 1024) {
    this.path = file;
    this.#maxBytes = maxBytes;
    this.write(Buffer.alloc(0));
  }

  write(chunk: Buffer): void {
    if (this.#closed) return;
    if (Date.now() < this.#retryAtMs) {
      this.#droppedBytes += chunk.length;
      return;
    }
    try {
      const descriptor = this.#writableFor(chunk.length);
      if (this.#droppedBytes > 0) {
        this.#append(
          descriptor,
          Buffer.from(`[${this.#droppedBytes} bytes of log were dropped: it could not be written]\n`),
        );
        this.#droppedBytes = 0;
      }
      this.#append(descriptor, chunk);
    } catch (error) {
      if (!(error as NodeJS.ErrnoException).code) throw error;
      this.#droppedBytes += chunk.length;
      this.#retryAtMs = Date.now() + retryMs;
    }
  }

  close(): void {
    this.#closed = true;
    this.#closeFile();
  }

  #writableFor(length: number): number {
    if (this.#descriptor !== null && this.#bytes > 0 && this.#bytes + length > this.#maxBytes) {
      this.#closeFile();
      fs.renameSync(this.path, `${this.path}.1`);
    }
    if (this.#descriptor === null) {
      fs.mkdirSync(path.dirname(this.path), { recursive: true });
      this.#descriptor = fs.openSync(this.path, 'a', 0o600);
      this.#bytes = fs.fstatSync(this.#descriptor).size;
    }
    return this.#descriptor;
  }

  /** A full disk accepts a part of a write, and then the rest fails. */
  #append(descriptor: number, chunk: Buffer): void {
    for (let at = 0; at < chunk.length; ) {
      const written = fs.writeSync(descriptor, chunk, at);
      if (written === 0) throw Object.assign(new Error('the kernel took nothing'), { code: 'ENOSPC' });
      this.#bytes += written;
      at += written;
    }
  }

  #closeFile(): void {
    if (this.#descriptor === null) return;
    const descriptor = this.#descriptor;
    this.#descriptor = null;
    try {
      fs.closeSync(descriptor);
    } catch (error) {
      // A delayed write may fail only here. The descriptor is closed anyway.
      if (!(error as NodeJS.ErrnoException).code) throw error;
    }
  }
}
