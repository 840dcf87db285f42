import type { FileHandle } from 'node:fs/promises';

/**
 * The number of bytes that are gathered for one write. The source is not read while one write is in progress and
 * another is full.
 */
const writeBytes = 512 * 1024;

/** Writes pieces that arrive in any size to a file, in large writes beside their arrival. */
export class FileWriter {
  readonly #file: FileHandle;
  #gathered: Buffer[] = [];
  #gatheredBytes = 0;
  #writing: Promise<void> | undefined;
  #failure: unknown;

  constructor(file: FileHandle) {
    this.#file = file;
  }

  /** Takes a piece, which may not change afterwards. @throws the error of an earlier write */
  add(bytes: Buffer): void {
    if (this.#failure) throw this.#failure;
    this.#gathered.push(bytes);
    this.#gatheredBytes += bytes.length;
    if (this.#gatheredBytes >= writeBytes && !this.#writing) this.#write();
  }

  /** More bytes were gathered than may wait in memory. */
  get isBehind(): boolean {
    return this.#writing !== undefined && this.#gatheredBytes >= writeBytes;
  }

  /** Waits for the write in progress. @throws errno */
  async caughtUp(): Promise<void> {
    await this.#writing;
    this.#write();
    if (this.#failure) throw this.#failure;
  }

  /** Waits until everything is written. @throws errno */
  async finish(): Promise<void> {
    while (this.#writing || this.#gatheredBytes > 0) await this.caughtUp();
    if (this.#failure) throw this.#failure;
  }

  /** Drops what was not written yet. */
  async abandon(): Promise<void> {
    this.#gathered = [];
    this.#gatheredBytes = 0;
    await this.#writing;
  }

  /** Begins to write the gathered bytes. */
  #write(): void {
    const pieces = this.#gathered;
    const bytes = this.#gatheredBytes;
    if (bytes === 0 || this.#failure) return;
    this.#gathered = [];
    this.#gatheredBytes = 0;
    this.#writing = this.#writeAll(pieces, bytes)
      .catch((error) => {
        this.#failure = error;
        this.#gatheredBytes = 0;
      })
      .finally(() => {
        this.#writing = undefined;
      });
  }

  async #writeAll(pieces: Buffer[], bytes: number): Promise<void> {
    const { bytesWritten } = await this.#file.writev(pieces);
    if (bytesWritten === bytes) return;
    // A disk that fills up accepts a part. Writing the rest then fails with the error.
    let rest = Buffer.concat(pieces).subarray(bytesWritten);
    while (rest.length > 0) rest = rest.subarray((await this.#file.write(rest)).bytesWritten);
  }
}
