import { Readable } from 'node:stream';
import { FairTurns } from '../domain/fair-turns.ts';
import { unreadBytes } from './waiting-bytes.ts';

/** Pieces of at least this size are passed on unjoined. */
const largePieceBytes = 16 * 1024;
/** A read with more pieces than this takes as long as many ordinary ones. */
const costlyPieces = 512;

/** Clients whose bodies arrive in many pieces take turns. */
const costlyBodies = new FairTurns(1);

/** The stream of a body. */
export interface BodySource {
  stream: Readable;
  /** Reads no more from the connection; bytes that have been read already may still come. */
  pause(): void;
  resume(): void;
}

/**
 * The body of a request; pieces of one read of the connection are joined. A client may send chunks or frames of a single
 * byte, and Node makes a buffer of hundreds of bytes of each: kept or written one by one they would use up the memory
 * and the time of the process.
 */
export class JoinedBody extends Readable {
  readonly #client: string;
  readonly #source: BodySource;
  #pieces: Buffer[] = [];
  #isScheduled = false;
  #isFull = false;
  #waitsForTurn = false;

  /** @param client key of the client that sends it */
  constructor(client: string, source: BodySource) {
    super({ highWaterMark: 64 * 1024 });
    this.#client = client;
    this.#source = source;
    const { stream } = source;
    stream.on('data', (piece: Buffer) => this.#add(piece));
    const end = () => {
      this.#flush();
      this.push(null);
    };
    // An empty HTTP/2 stream ends before anyone reads it.
    if (stream.readableEnded) end();
    else stream.once('end', end);
  }

  /** Bytes that have arrived and have not been read. */
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
    // Runs when the parser has handed on the whole read.
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
    costlyBodies.runLater(this.#client, () => {
      this.#waitsForTurn = false;
      this.#resume();
    });
  }

  #resume(): void {
    if (!this.#isFull && !this.#waitsForTurn) this.#source.resume();
  }
}
