import pLimit, { type LimitFunction } from 'p-limit';
import type { AccountId } from '../../domain/ids.ts';

/** Nodes start pods no faster when more than these are under way for each of their cores. */
const startsPerCore = 8;

/** For whom a pod starts: an account, all whose image is looked at, or a sandbox that is not there yet. */
type Starter = AccountId | 'images' | 'warm';

/**
 * Bounds how many pods of a driver start at once. Nodes start a few a second; of many that are made together the last would
 * not run in time. One starter has at most half of the places: its images may take long to be pulled.
 */
export class PodStarts {
  readonly #places: () => number;
  readonly #all: LimitFunction;
  readonly #starters = new Map<Starter, { limit: LimitFunction; starts: number }>();

  /** @param options.atOnce undefined: by the cores that the cluster has at each start */
  constructor({ atOnce, coreCount }: { atOnce?: number; coreCount: () => number }) {
    this.#places = () => atOnce ?? coreCount() * startsPerCore;
    this.#all = pLimit(this.#places());
  }

  /**
   * Waits for a place; starts of one starter get theirs in the order of their calls.
   * @returns what gives the place back; a second call does nothing
   * @throws the signal's reason when it aborts before there is a place
   */
  async take(starter: Starter, signal?: AbortSignal): Promise<() => void> {
    signal?.throwIfAborted();
    const turn = Promise.withResolvers<void>();
    const left = Promise.withResolvers<void>();
    const abort = () => turn.reject(signal?.reason);
    signal?.addEventListener('abort', abort, { once: true });
    this.#hold(starter, async () => {
      turn.resolve();
      await left.promise;
    });
    try {
      await turn.promise;
      return () => left.resolve();
    } catch (error) {
      // Its turn comes all the same, and is over at once.
      left.resolve();
      throw error;
    } finally {
      signal?.removeEventListener('abort', abort);
    }
  }

  #hold(starter: Starter, act: () => Promise<void>): void {
    const places = this.#places();
    const own = this.#starters.get(starter) ?? { limit: pLimit(1), starts: 0 };
    this.#starters.set(starter, own);
    this.#all.concurrency = places;
    own.limit.concurrency = Math.ceil(places / 2);
    own.starts += 1;
    void own
      .limit(() => this.#all(act))
      .finally(() => {
        own.starts -= 1;
        if (own.starts === 0) this.#starters.delete(starter);
      });
  }
}
