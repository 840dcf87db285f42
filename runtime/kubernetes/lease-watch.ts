/** One reading of a lease. */
export interface LeaseReading {
  /** Changes with every renewal. */
  renewal: string;
  /** How long a renewal is valid. */
  seconds: number;
}

/**
 * Decides whether a lease that other processes renew is over. It uses only the observer's own clock, because the clocks
 * of a cluster's machines differ. A lease is over when the observer could read it for its whole length without seeing a
 * renewal. After a gap in the readings the length begins again, because the renewing processes may also have been cut
 * off.
 */
export class LeaseWatch {
  readonly #gapMs: number;
  #reading: LeaseReading | null = null;
  #sinceMs = 0;
  #readMs = Number.NEGATIVE_INFINITY;

  /** @param gapMs a longer time between two readings is a gap */
  constructor(gapMs: number) {
    this.#gapMs = gapMs;
  }

  /**
   * Call this with each reading, at least every `gapMs`.
   * @param reading null: the lease does not exist
   * @returns whether the lease is over
   */
  read(reading: LeaseReading | null, nowMs: number): boolean {
    const isGap = nowMs - this.#readMs > this.#gapMs;
    const isNew = reading?.renewal !== this.#reading?.renewal;
    this.#readMs = nowMs;
    this.#reading = reading;
    if (isNew || isGap) this.#sinceMs = nowMs;
    return reading !== null && nowMs - this.#sinceMs >= reading.seconds * 1000;
  }
}
