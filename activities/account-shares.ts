import { setTimeout as delay } from 'node:timers/promises';

/** How long a work waits for its account's share before it is refused; it holds an activity slot meanwhile. */
const patienceMs = 2000;
const lookEveryMs = 20;

/** The account has its share of what this host does at once; the same work may be admitted a moment later. */
export class ShareInUse extends Error {
  override name = 'ShareInUse';
}

/**
 * Bounds how many activity slots of a host one account occupies with work that may wait for its sandboxes, so that
 * sandboxes which answer nothing cannot keep those of other accounts from starting.
 */
export class AccountShares {
  readonly #share: number;
  readonly #running = new Map<string, number>();
  readonly #waiting = new Map<string, number>();

  /** @param share works of one account at once; as many more may wait for a moment */
  constructor(share: number) {
    this.#share = share;
  }

  /** @throws {ShareInUse} when the account has its share already; what `work` throws */
  async run<Result>(accountId: string, signal: AbortSignal, work: () => Promise<Result>): Promise<Result> {
    if (!this.#isFree(accountId)) await this.#wait(accountId, signal);
    add(this.#running, accountId, 1);
    try {
      return await work();
    } finally {
      add(this.#running, accountId, -1);
    }
  }

  async #wait(accountId: string, signal: AbortSignal): Promise<void> {
    if ((this.#waiting.get(accountId) ?? 0) >= this.#share) throw inUse();
    add(this.#waiting, accountId, 1);
    try {
      const end = performance.now() + patienceMs;
      while (!this.#isFree(accountId)) {
        if (performance.now() > end) throw inUse();
        await delay(lookEveryMs, undefined, { signal });
      }
    } finally {
      add(this.#waiting, accountId, -1);
    }
  }

  #isFree(accountId: string): boolean {
    return (this.#running.get(accountId) ?? 0) < this.#share;
  }
}

const inUse = () => new ShareInUse("The host is busy with others of the account's sandboxes");

function add(counts: Map<string, number>, key: string, change: number): void {
  const count = (counts.get(key) ?? 0) + change;
  if (count > 0) counts.set(key, count);
  else counts.delete(key);
}
