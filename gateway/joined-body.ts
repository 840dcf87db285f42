import { Readable } from 'node:stream';
import { TurnQueue } from './turn-queue.ts';
import { unreadBytes } from './waiting-bytes.ts';

/** Pieces from that size on are passed on as they are. */
const largePieceBytes = 16 * 1024;
/** A read that brings more pieces than that takes as long as many ordinary ones. */
const costlyPieces = 512;

/** Bodies that arrive in many pieces take turns to be read. */
const costlyBodies = new TurnQueue(1);

/** Where a body comes from. */
export interface BodySource {
  stream: Readable;
  /** Reads no more from the connection; what has been read already may still come. */
  pause(): void;
  resume(): void;
}

/**
 * The body of a request, its pieces joined by the reads of the connection. A client may send chunks or frames of a single
 * byte, each of which Node makes a buffer of hundreds of bytes; kept or written alone they would use up the memory and the
 * time of the process.
 */
export class JoinedBody extends Readable {
  readonly #source: BodySource;
  #pieces: Buffer[] = [];
  #isScheduled = false;
  #isFull = false;
  #waitsForTurn = false;

  constructor(source: BodySource) {
    super({ highWaterMark: 64 * 1024 });
    this.#source = source;
    const { stream } = source;
    stream.on('data', (piece: Buffer) => this.#add(piece));
    const end = () => {
      this.#flush();
      this.push(null);
    };
    // An HTTP/2 stream without a single byte ends by itself, before anyone reads it.
    if (stream.readableEnded) end();
    else stream.once('end', end);
  }

  /** Memory of what has arrived and has not been taken. */
  get waitingBytes(): number {
    return unreadBytes(this) + unreadBytes(this.#source.stream);
  }

  override _read(): void {
    this.#isFull = false;
    this.#resume();
  }

  #add(piece: Buffer): void {
    if (piece.length >= largePieceBytes) {
      this.#flush();
      this.#pass(piece);
      return;
    }
    this.#pieces.push(piece);
    if (this.#pieces.length === costlyPieces) this.#waitForTurn();
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    // Runs when all that the connection had to read has been taken apart.
    setImmediate(() => {
      this.#isScheduled = false;
      this.#flush();
    });
  }

  #flush(): void {
    if (this.#pieces.length === 0) return;
    const bytes = Buffer.concat(this.#pieces);
    this.#pieces = [];
    this.#pass(bytes);
  }

  #pass(bytes: Buffer): void {
    if (this.push(bytes)) return;
    this.#isFull = true;
    this.#source.pause();
  }

  #waitForTurn(): void {
    if (this.#waitsForTurn) return;
    this.#waitsForTurn = true;
    this.#source.pause();
    costlyBodies.runLater(() => {
      this.#waitsForTurn = false;
      this.#resume();
    });
  }

  #resume(): void {
    if (!this.#isFull && !this.#waitsForTurn) this.#source.resume();
  }
}
