import { Readable } from 'node:stream';
import { FairTurns } from '../domain/fair-turns.ts';
import { unreadBytes } from './waiting-bytes.ts';

/** Pieces of at least this size are passed on without joining. */
const largePieceBytes = 16 * 1024;
/** A read with more pieces than this takes as long as many ordinary reads. */
const costlyPieces = 512;

/** Clients whose bodies arrive in many pieces take turns. */
const costlyBodies = new FairTurns(1);

/** The source of a body's data. */
export interface BodySource {
  stream: Readable;
  /** Stops reading from the connection. Bytes that were already read may still arrive. */
  pause(): void;
  resume(): void;
}

/**
 * The body of a request. The pieces of one read of the connection are joined. A client may send chunks or frames of one
 * byte, and Node makes a buffer of hundreds of bytes for each. Kept or written one by one, they would exhaust the
 * memory and the time of the process.
 */
export class JoinedBody extends Readable {
  readonly #client: string;
  readonly #source: BodySource;
  #pieces: Buffer[] = [];
  #isScheduled = false;
  #isFull = false;
  #waitsForTurn = false;

  /** @param client the key of the client that sends the body */
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
    // An empty HTTP/2 stream ends before it is read.
    if (stream.readableEnded) end();
    else stream.once('end', end);
  }

  /** Bytes that have arrived and are unread. */
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
    // This runs after the parser has passed on all data of the current read.
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
