/** What an observer has read of a lease. */
export interface LeaseReading {
  /** Changes with every renewal. */
  renewal: string;
  /** How long a renewal is good for. */
  seconds: number;
}

/**
 * Whether a lease that others renew is over, by the observer's own clock: machines of a cluster do not agree on the time.
 * It is over when it has not changed for its length while the observer could read it. After a time in which it could
 * not, the length counts anew, because those who renew may have been cut off as well.
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
   * Call with each reading, at least every `gapMs`.
   * @param reading null: the lease does not exist
   * @returns whether it is over
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
