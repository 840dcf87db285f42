import { setTimeout as delay } from 'node:timers/promises';
import type { AccountId } from '../domain/ids.ts';

/** How long work waits for its account's share before it is refused. It occupies an activity slot during the wait. */
const maxWaitMs = 2000;
const pollMs = 20;

/** The account already uses its share of this host's activity slots. A later attempt may be admitted. */
export class ShareInUse extends Error {
  override name = 'ShareInUse';
}

/**
 * Limits the activity slots of a host that one account may occupy with work that waits for its sandboxes. So
 * unresponsive sandboxes cannot prevent sandboxes of other accounts from starting.
 */
export class AccountShares {
  readonly #share: number;
  readonly #running = new Map<string, number>();
  readonly #waiting = new Map<string, number>();

  /** @param share the number of activities of one account that may run at once. The same number may wait. */
  constructor(share: number) {
    this.#share = share;
  }

  /** @throws {ShareInUse} when the account already uses its share, and the errors of `work` */
  async run<Result>(accountId: AccountId, signal: AbortSignal, work: () => Promise<Result>): Promise<Result> {
    if (!this.#isFree(accountId)) await this.#wait(accountId, signal);
    add(this.#running, accountId, 1);
    try {
      return await work();
    } finally {
      add(this.#running, accountId, -1);
    }
  }

  async #wait(accountId: AccountId, signal: AbortSignal): Promise<void> {
    if ((this.#waiting.get(accountId) ?? 0) >= this.#share) throw inUse();
    add(this.#waiting, accountId, 1);
    try {
      const end = performance.now() + maxWaitMs;
      while (!this.#isFree(accountId)) {
        if (performance.now() > end) throw inUse();
        await delay(pollMs, undefined, { signal });
      }
    } finally {
      add(this.#waiting, accountId, -1);
    }
  }

  #isFree(accountId: AccountId): boolean {
    return (this.#running.get(accountId) ?? 0) < this.#share;
  }
}

const inUse = () => new ShareInUse("The host is busy with others of the account's sandboxes");

function add(counts: Map<string, number>, key: string, change: number): void {
  const count = (counts.get(key) ?? 0) + change;
  if (count > 0) counts.set(key, count);
  else counts.delete(key);
}
