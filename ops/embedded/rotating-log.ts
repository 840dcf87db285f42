import fs from 'node:fs';
import path from 'node:path';

/** A log file that is bounded: past its limit it becomes `<file>.1`, in place of the one before. */
export class RotatingLog {
  readonly path: string;
  readonly #maxBytes: number;
  #descriptor: number;
  #bytes: number;

  constructor(file: string, maxBytes = 20 * 1024 * 1024) {
    fs.mkdirSync(path.dirname(file), { recursive: true });
    this.path = file;
    this.#maxBytes = maxBytes;
    this.#descriptor = fs.openSync(file, 'a', 0o600);
    this.#bytes = fs.fstatSync(this.#descriptor).size;
  }

  write(chunk: Buffer): void {
    if (this.#bytes > 0 && this.#bytes + chunk.length > this.#maxBytes) {
      fs.closeSync(this.#descriptor);
      fs.renameSync(this.path, `${this.path}.1`);
      this.#descriptor = fs.openSync(this.path, 'a', 0o600);
      this.#bytes = 0;
    }
    fs.writeSync(this.#descriptor, chunk);
    this.#bytes += chunk.length;
  }

  close(): void {
    fs.closeSync(this.#descriptor);
  }
}
