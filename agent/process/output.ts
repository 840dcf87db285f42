import type { Channel } from './launch.ts';

/** A piece of a process's output. */
export interface Output {
  channel: Channel;
  bytes: Buffer;
}

/** Output that no client has taken yet, the newest `maxBytes` of it. */
export class Backlog {
  private readonly maxBytes: number;
  private pieces: Output[] = [];
  private bytes = 0;

  constructor(maxBytes: number) {
    this.maxBytes = maxBytes;
  }

  add({ channel, bytes }: Output): void {
    const kept = bytes.subarray(-this.maxBytes);
    // A copy: the piece may be a small view of a large read.
    this.pieces.push({ channel, bytes: Buffer.from(kept) });
    this.bytes += kept.length;
    while (this.bytes > this.maxBytes) {
      const oldest = this.pieces[0]!;
      const over = this.bytes - this.maxBytes;
      if (oldest.bytes.length <= over) {
        this.pieces.shift();
        this.bytes -= oldest.bytes.length;
      } else {
        oldest.bytes = oldest.bytes.subarray(over);
        this.bytes -= over;
      }
    }
  }

  /** All of it, oldest first; it is empty afterwards. */
  take(): Output[] {
    const pieces = this.pieces;
    this.pieces = [];
    this.bytes = 0;
    return pieces;
  }
}
