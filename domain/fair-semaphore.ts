interface Waiting {
  key: string;
  grant: () => void;
}

/** One of the permits, until it is released. */
export interface Permit {
  /** The first call releases the permit. Later calls do nothing. */
  release(): void;
}

/**
 * Limits the number of concurrent works. Permits go to keys in turn, and one key has at most `share` of them, so the
 * works of one key cannot block the works of the others.
 */
export class FairSemaphore {
  readonly #permits: number;
  readonly #share: number;
  readonly #inUse = new Map<string, number>();
  #used = 0;
  #waiting: Waiting[] = [];

  /** @param share the maximum number of permits of one key */
  constructor(permits: number, share: number) {
    this.#permits = permits;
    this.#share = share;
  }

  /**
   * Waits for a permit.
   * @throws the signal's reason as soon as it aborts
   */
  take(key: string, signal: AbortSignal): Promise<Permit> {
    return new Promise((resolve, reject) => {
      if (signal.aborted) {
        reject(signal.reason);
        return;
      }
      const onAbort = () => {
        this.#waiting = this.#waiting.filter((each) => each !== mine);
        reject(signal.reason);
      };
      const mine: Waiting = {
        key,
        grant: () => {
          signal.removeEventListener('abort', onAbort);
          resolve(this.#permit(key));
        },
      };
      signal.addEventListener('abort', onAbort, { once: true });
      this.#waiting.push(mine);
      this.#grant();
    });
  }

  #permit(key: string): Permit {
    let isHeld = true;
    return {
      release: () => {
        if (!isHeld) return;
        isHeld = false;
        this.#used -= 1;
        const left = this.#inUseBy(key) - 1;
        if (left > 0) this.#inUse.set(key, left);
        else this.#inUse.delete(key);
        this.#grant();
      },
    };
  }

  #grant(): void {
    while (this.#used < this.#permits) {
      const next = this.#next();
      if (!next) return;
      this.#waiting = this.#waiting.filter((each) => each !== next);
      this.#used += 1;
      this.#inUse.set(next.key, this.#inUseBy(next.key) + 1);
      next.grant();
    }
  }

  /** The next work to get a permit: the first of the key with the fewest permits, among keys below their share. */
  #next(): Waiting | undefined {
    let next: Waiting | undefined;
    for (const each of this.#waiting) {
      if (this.#inUseBy(each.key) >= this.#share) continue;
      if (!next || this.#inUseBy(each.key) < this.#inUseBy(next.key)) next = each;
    }
    return next;
  }

  #inUseBy(key: string): number {
    return this.#inUse.get(key) ?? 0;
  }
}
