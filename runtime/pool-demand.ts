/** Creates within this time use the same pool, which is not refilled in between. */
const burstMs = 5000;
/** A burst affects the size for this long. */
const rememberedMs = 600_000;

/** Computes the number of members of a pool from recent bursts of creates. */
export class PoolDemand {
  readonly #least: number;
  readonly #most: number;
  /** The times of the last claims, oldest first. */
  #claims: number[] = [];

  constructor(size: { least: number; most: number }) {
    this.#least = size.least;
    this.#most = Math.max(size.least, size.most);
  }

  /** Call this for each create that could use a member, even if there was none. */
  note(atMs: number): void {
    // More claims in a burst make no difference, and older bursts are dropped after their time.
    this.#claims = [...this.#recent(atMs), atMs].slice(-64 * this.#most);
  }

  /** The largest burst of the last minutes, within the limits. */
  size(nowMs: number): number {
    const claims = this.#recent(nowMs);
    let largest = 0;
    for (let first = 0, last = 0; last < claims.length; last += 1) {
      while (claims[last]! - claims[first]! > burstMs) first += 1;
      largest = Math.max(largest, last - first + 1);
    }
    return Math.min(this.#most, Math.max(this.#least, largest));
  }

  #recent(nowMs: number): number[] {
    return this.#claims.filter((atMs) => nowMs - atMs <= rememberedMs);
  }
}
