import pLimit, { type LimitFunction } from 'p-limit';
import type { AccountId } from '../../domain/ids.ts';

/** The limit of concurrent pod starts for each core of the nodes. More of them do not start faster. */
const startsPerCore = 8;

/** The reason for a start: a sandbox of an account, an inspection of an image, or a warm pod. */
type Starter = AccountId | 'images' | 'warm';

/**
 * Limits how many pods of a driver start at the same time. Nodes start only a few pods a second, so the last of many
 * pods would exceed its start time. One starter gets at most half of the places, because its images may take long to
 * pull.
 */
export class PodStarts {
  readonly #places: () => number;
  readonly #all: LimitFunction;
  readonly #starters = new Map<Starter, { limit: LimitFunction; starts: number }>();

  /** @param options.atOnce the limit; undefined: it depends on the cores that the cluster has at each start */
  constructor({ atOnce, coreCount }: { atOnce?: number; coreCount: () => number }) {
    this.#places = () => atOnce ?? coreCount() * startsPerCore;
    this.#all = pLimit(this.#places());
  }

  /**
   * Waits for a place. The starts of one starter get their places in the order of their calls.
   * @returns a function that gives the place back; a second call of it does nothing
   * @throws the signal's reason when the signal aborts before there is a place
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
      // The queue still reaches this entry later; it then ends at once.
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
