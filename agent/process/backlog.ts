export type Channel = 'stdout' | 'stderr' | 'pty';

/** The newest `maxBytes` of output that no client has taken yet. */
export class Backlog {
  readonly #maxBytes: number;
  #pieces: { channel: Channel; bytes: Buffer }[] = [];
  #bytes = 0;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** Keeps a copy. */
  add(channel: Channel, output: Buffer): void {
    this.#pieces.push({ channel, bytes: Buffer.from(output.subarray(-this.#maxBytes)) });
    this.#bytes += Math.min(output.length, this.#maxBytes);
    while (this.#bytes > this.#maxBytes) {
      const oldest = this.#pieces[0]!;
      const over = this.#bytes - this.#maxBytes;
      if (oldest.bytes.length <= over) {
        this.#pieces.shift();
        this.#bytes -= oldest.bytes.length;
      } else {
        oldest.bytes = oldest.bytes.subarray(over);
        this.#bytes -= over;
      }
    }
  }

  /** Returns all output, oldest first, and empties the backlog. */
  take(): { channel: Channel; bytes: Buffer }[] {
    const pieces = this.#pieces;
    this.#pieces = [];
    this.#bytes = 0;
    return pieces;
  }
}
