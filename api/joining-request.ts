import { IncomingMessage } from 'node:http';

/** Pieces of at least this size are passed on unjoined. */
const largePieceBytes = 4 * 1024;
/** Joined pieces are passed on from this size on. */
const joinedBytes = 16 * 1024;
/** So many pieces are kept before they are copied into one. */
const keptPieces = 64;
/**
 * From so many pieces on, a body whose pieces are smaller than `leastAverageBytes` on average ends its connection. No
 * client's HTTP library sends such a body, and 64 KiB of chunks of one byte take Node up to 20 ms to parse.
 */
const countedPieces = 1024;
const leastAverageBytes = 16;

/**
 * A request whose body costs what its bytes cost. A client may send chunks of a single byte, each of which Node makes a
 * buffer of hundreds of bytes: 64 KiB of them that wait would be 16 MiB. Pieces that arrive together are joined, and a
 * body of many tiny pieces is cut off.
 * Until a handler reads the body, nothing is read from the connection beyond what arrived with the head.
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
      // Runs when the parser has handed on the whole read.
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
