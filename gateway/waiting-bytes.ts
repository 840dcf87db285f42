import type { Readable, Writable } from 'node:stream';
import type { BoundedLog } from './bounded-log.ts';

const checkEveryMs = 100;
/** The overhead of a buffer in a queue. */
const pieceOverheadBytes = 256;

/** An exchange with bytes in this process that wait until the sandbox or the client reads. */
export interface WaitingExchange {
  readonly clientKey: string;
  /** The number of waiting bytes. */
  waitingBytes(): number;
  /** Ends the exchange, which frees its memory. */
  giveUp(): void;
}

export interface WaitingBytesOptions {
  maxBytes: number;
  maxBytesPerClient: number;
  log: BoundedLog;
}

/**
 * Limits the memory of all exchanges of this process for slow readers. Flow-control windows limit the bytes of one
 * exchange, but a client may have many exchanges, and may fill them with one-byte pieces. Above the limit, the exchange
 * with the most bytes is ended, among the exchanges of a client over its share, or else among all.
 */
export class WaitingBytes {
  readonly #options: WaitingBytesOptions;
  readonly #exchanges = new Set<WaitingExchange>();
  #timer: NodeJS.Timeout | null = null;

  constructor(options: WaitingBytesOptions) {
    this.#options = options;
  }

  /** Counts the waiting bytes of an exchange until the returned function is called. */
  watch(exchange: WaitingExchange): () => void {
    this.#exchanges.add(exchange);
    this.#timer ??= setInterval(() => this.#check(), checkEveryMs).unref();
    return () => {
      this.#exchanges.delete(exchange);
      if (this.#exchanges.size > 0 || !this.#timer) return;
      clearInterval(this.#timer);
      this.#timer = null;
    };
  }

  #check(): void {
    const { maxBytes, maxBytesPerClient } = this.#options;
    const waiting = [...this.#exchanges]
      .map((exchange) => ({ exchange, bytes: exchange.waitingBytes() }))
      .sort((a, b) => b.bytes - a.bytes);
    const ofClient = new Map<string, number>();
    let total = 0;
    for (const { exchange, bytes } of waiting) {
      ofClient.set(exchange.clientKey, (ofClient.get(exchange.clientKey) ?? 0) + bytes);
      total += bytes;
    }
    const giveUp = (isOver: (clientKey: string) => boolean) => {
      for (const { exchange, bytes } of waiting) {
        if (!this.#exchanges.has(exchange) || !isOver(exchange.clientKey)) continue;
        this.#exchanges.delete(exchange);
        ofClient.set(exchange.clientKey, ofClient.get(exchange.clientKey)! - bytes);
        total -= bytes;
        this.#options.log.write(
          'warn',
          { client: exchange.clientKey, bytes },
          'too many bytes wait: a request is ended',
        );
        exchange.giveUp();
      }
    };
    giveUp((clientKey) => ofClient.get(clientKey)! > maxBytesPerClient);
    giveUp(() => total > maxBytes);
  }
}

/** Bytes that have arrived on a stream and are unread. */
export function unreadBytes(stream: Readable): number {
  if (stream.readableLength === 0) return 0;
  // Node does not document this property, but only the pieces themselves show how much memory they hold.
  const { readableBuffer: pieces } = stream as unknown as { readableBuffer: Iterable<Buffer | null> };
  let bytes = 0;
  let last: ArrayBufferLike | null = null;
  for (const piece of pieces) {
    // The piece was already read.
    if (!piece) continue;
    // A piece is a part of the buffer of one read, and keeps the whole buffer in memory.
    if (piece.buffer !== last) bytes += piece.buffer.byteLength;
    last = piece.buffer;
    bytes += pieceOverheadBytes;
  }
  return bytes;
}

/** Bytes that were written to a stream and are not sent yet. */
export function unsentBytes(stream: Writable): number {
  if (stream.writableLength === 0) return 0;
  const { writableBuffer: pieces } = stream as unknown as { writableBuffer: unknown[] };
  return stream.writableLength + pieces.length * pieceOverheadBytes;
}
