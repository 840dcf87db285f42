/** Pseudo-random numbers that are the same for the same seed, so that failures can be repeated. */
export class Random {
  #state: number;

  constructor(seed: number) {
    this.#state = seed >>> 0;
  }

  /** A whole number from 0 to below `limit` (mulberry32). */
  below(limit: number): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let mixed = this.#state;
    mixed = Math.imul(mixed ^ (mixed >>> 15), mixed | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) % limit;
  }

  pick<T>(choices: readonly T[]): T {
    return choices[this.below(choices.length)]!;
  }

  bytes(length: number): Buffer {
    const bytes = Buffer.alloc(length);
    for (let i = 0; i < length; i++) bytes[i] = this.below(256);
    return bytes;
  }

  /** The bytes cut at random places. */
  cut(bytes: Buffer): Buffer[] {
    const pieces: Buffer[] = [];
    for (let at = 0; at < bytes.length; ) {
      const end = Math.min(at + 1 + this.below(this.pick([1, 4, 30, bytes.length])), bytes.length);
      pieces.push(bytes.subarray(at, end));
      at = end;
    }
    return pieces;
  }

  /** The bytes with some of them changed, removed, doubled or cut off. */
  damage(bytes: Buffer): Buffer {
    let damaged = Buffer.from(bytes);
    for (let i = this.below(6); i >= 0; i--) {
      const at = this.below(damaged.length + 1);
      const length = this.below(12);
      const kind = this.below(4);
      if (kind === 0 && at < damaged.length) damaged[at] = this.below(256);
      else if (kind === 1) damaged = Buffer.concat([damaged.subarray(0, at), damaged.subarray(at + length)]);
      else if (kind === 2) damaged = Buffer.concat([damaged.subarray(0, at + length), damaged.subarray(at)]);
      else damaged = Buffer.concat([damaged.subarray(0, at), this.bytes(length), damaged.subarray(at)]);
    }
    return this.below(8) === 0 ? damaged.subarray(0, this.below(damaged.length + 1)) : damaged;
  }
}
