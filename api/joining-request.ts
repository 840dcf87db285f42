import { IncomingMessage } from 'node:http';

/** Pieces of at least this size are passed on without joining. */
const largePieceBytes = 4 * 1024;
/** Joined pieces are passed on when they reach this size. */
const joinedBytes = 16 * 1024;
/** This many pieces are kept before they are copied into one. */
const keptPieces = 64;
/**
 * From this many pieces on, the connection is closed if the body's pieces are on average smaller than
 * `leastAverageBytes`. No client's HTTP library sends such a body, and Node takes up to 20 ms to parse 64 KiB of
 * one-byte chunks.
 */
const countedPieces = 1024;
const leastAverageBytes = 16;

/**
 * A request with bounded memory per byte of its body. A client may send one-byte chunks, and Node makes a buffer of
 * hundreds of bytes for each: 64 KiB of them would take 16 MiB. So pieces that arrive together are joined, and a body
 * of many tiny pieces closes the connection. Nothing after the data that arrived with the head is read until a handler
 * reads the body.
 */
export class JoiningRequest extends IncomingMessage {
  #pieces: Buffer[] = [];
  #heldBytes = 0;
  #isScheduled = false;
  #isWanted = false;
  #arrivedPieces = 0;
  #arrivedBytes = 0;

  override push(piece: Buffer | null): boolean {
    if (this.destroyed) return false;
    if (piece && this.#isTinyPieces(piece)) {
      this.#pieces = [];
      this.destroy();
      return false;
    }
    if (piece === null || piece.length >= largePieceBytes) {
      this.#flush();
      return super.push(piece);
    }
    this.#pieces.push(piece);
    this.#heldBytes += piece.length;
    if (this.#heldBytes >= joinedBytes) return this.#flush();
    if (this.#pieces.length === keptPieces) this.#pieces = [Buffer.concat(this.#pieces)];
    if (!this.#isScheduled) {
      this.#isScheduled = true;
      // This runs after the parser has passed on all data of the current read.
      setImmediate(() => {
        this.#isScheduled = false;
        this.#flush();
      });
    }
    return this.readableLength + this.#heldBytes < this.readableHighWaterMark;
  }

  override _read(size: number): void {
    if (this.#isWanted) super._read(size);
  }

  // biome-ignore lint/suspicious/noExplicitAny: the type of the overridden method
  override on(event: string | symbol, listener: (...args: any[]) => void): this {
    if (event === 'data' || event === 'readable') this.#want();
    return super.on(event, listener);
  }

  override resume(): this {
    this.#want();
    return super.resume();
  }

  #want(): void {
    if (this.#isWanted) return;
    this.#isWanted = true;
    if (!this.complete) super._read(0);
  }

  #isTinyPieces(piece: Buffer): boolean {
    this.#arrivedPieces++;
    this.#arrivedBytes += piece.length;
    return this.#arrivedPieces >= countedPieces && this.#arrivedBytes < this.#arrivedPieces * leastAverageBytes;
  }

  #flush(): boolean {
    if (this.#pieces.length === 0) return true;
    const bytes = this.#pieces.length === 1 ? this.#pieces[0]! : Buffer.concat(this.#pieces);
    this.#pieces = [];
    this.#heldBytes = 0;
    return super.push(bytes);
  }
}
