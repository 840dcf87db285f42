import { Code } from '@connectrpc/connect';
import { ConnectError } from './connect-error.ts';

/** Flags of a Connect stream's frame. */
export const frameFlag = { compressed: 0b1, endStream: 0b10 } as const;

/** The head of each message of a stream: one byte of flags, then the length in four bytes, big-endian. */
export const frameHeadBytes = 5;

/** One frame with `payload`. */
export function frame(flags: number, payload: Buffer | Uint8Array): Buffer {
  const out = Buffer.allocUnsafe(frameHeadBytes + payload.length);
  out[0] = flags;
  out.writeUInt32BE(payload.length, 1);
  out.set(payload, frameHeadBytes);
  return out;
}

/** One frame with UTF-8 text. */
export function textFrame(flags: number, text: string): Buffer {
  const length = Buffer.byteLength(text);
  const out = Buffer.allocUnsafe(frameHeadBytes + length);
  out[0] = flags;
  out.writeUInt32BE(length, 1);
  out.write(text, frameHeadBytes, 'utf8');
  return out;
}

/**
 * Splits a byte stream that arrives in arbitrary pieces into frames. Keeps at most one unfinished frame, and refuses a
 * frame longer than `maxBytes` before it reads the content.
 */
export class FrameParser {
  readonly #head = Buffer.allocUnsafe(frameHeadBytes);
  #headHave = 0;
  #payload: Buffer | undefined;
  #payloadHave = 0;

  readonly #maxBytes: number;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /**
   * Takes the next bytes and yields the completed frames. A payload is a view of the input if the input contains it
   * completely.
   * @throws {ConnectError} `resource_exhausted` for a frame that is too long, `invalid_argument` for unknown flags
   */
  *push(chunk: Buffer): Generator<{ flags: number; payload: Buffer }> {
    let at = 0;
    while (at < chunk.length) {
      if (this.#headHave < frameHeadBytes) {
        const take = Math.min(frameHeadBytes - this.#headHave, chunk.length - at);
        chunk.copy(this.#head, this.#headHave, at, at + take);
        this.#headHave += take;
        at += take;
        if (this.#headHave < frameHeadBytes) return;
        this.#checkHead();
      }
      const need = this.#head.readUInt32BE(1);
      if (this.#payload === undefined && chunk.length - at >= need) {
        const payload = chunk.subarray(at, at + need);
        at += need;
        this.#headHave = 0;
        yield { flags: this.#head[0]!, payload };
        continue;
      }
      // The buffer grows with the bytes that arrive, so a head that announces a long frame costs nothing by itself.
      const have = this.#payloadHave;
      const take = Math.min(need - have, chunk.length - at);
      if (this.#payload === undefined || this.#payload.length < have + take) {
        const grown = Buffer.allocUnsafe(Math.min(need, Math.max(have + take, have * 2, 4096)));
        this.#payload?.copy(grown, 0, 0, have);
        this.#payload = grown;
      }
      chunk.copy(this.#payload, have, at, at + take);
      this.#payloadHave += take;
      at += take;
      if (this.#payloadHave === need) {
        const payload = this.#payload.subarray(0, need);
        this.#payload = undefined;
        this.#payloadHave = 0;
        this.#headHave = 0;
        yield { flags: this.#head[0]!, payload };
      }
    }
  }

  /** Whether the stream may end here, which is not within a frame. */
  get atBoundary(): boolean {
    return this.#headHave === 0;
  }

  #checkHead(): void {
    const flags = this.#head[0]!;
    if ((flags & ~(frameFlag.compressed | frameFlag.endStream)) !== 0) {
      throw new ConnectError(`malformed frame: unknown flags 0x${flags.toString(16)}`, Code.InvalidArgument);
    }
    const length = this.#head.readUInt32BE(1);
    if (length > this.#maxBytes) {
      throw new ConnectError(
        `message of ${length} bytes is over the limit of ${this.#maxBytes}`,
        Code.ResourceExhausted,
      );
    }
  }
}
