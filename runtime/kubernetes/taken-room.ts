import { setTimeout as sleep } from 'node:timers/promises';
import type { DriverLogger } from '../driver-logger.ts';
import { isOverQuota } from './api-errors.ts';
import type { ClusterWatch } from './cluster-watch.ts';
import { lacksRoom } from './pod-state.ts';
import type { WarmPods } from './warm-pods.ts';

/** A quota counts what is gone some moments later. */
const quotaMs = 15_000;
const askAgainMs = 300;
/** The scheduler tries again when a pod is gone. */
const scheduleMs = 1500;

/** Takes the room of warm pods for sandboxes that find none: at first of one, then of twice as many each time. */
export class TakenRoom {
  readonly #watch: ClusterWatch;
  readonly #pods: Pick<WarmPods, 'giveWay'>;
  readonly #logger: DriverLogger;

  constructor(watch: ClusterWatch, pods: Pick<WarmPods, 'giveWay'>, logger: DriverLogger) {
    this.#watch = watch;
    this.#pods = pods;
    this.#logger = logger;
  }

  /** Does what a quota may refuse. @throws what it throws, when no warm pods are left or that does not help */
  async within<Result>(act: () => Promise<Result>, signal: AbortSignal): Promise<Result> {
    let retryUntilMs = 0;
    for (let count = 1; ; ) {
      try {
        return await act();
      } catch (error) {
        if (!isOverQuota(error) || signal.aborted) throw error;
        if (performance.now() >= retryUntilMs) {
          if ((await this.#pods.giveWay(count)) === 0) throw error;
          count *= 2;
          retryUntilMs = performance.now() + quotaMs;
        }
        await sleep(askAgainMs, undefined, { signal });
      }
    }
  }

  /**
   * Gives a pod the room of others, until it has a node.
   * @param signal ends it
   * @returns what to call each time that no node has room for the pod
   */
  forPod(name: string, signal: AbortSignal): () => void {
    let isMaking = false;
    return () => {
      if (isMaking) return;
      isMaking = true;
      this.#makeFor(name, signal)
        .catch((error) => {
          if (!signal.aborted) this.#logger.warn({ err: error, pod: name }, 'warm pods could not give way');
        })
        .finally(() => {
          isMaking = false;
        });
    };
  }

  async #makeFor(name: string, signal: AbortSignal): Promise<void> {
    for (let count = 1; !signal.aborted && this.#lacksRoom(name); count *= 2) {
      if ((await this.#pods.giveWay(count)) === 0) return;
      await sleep(scheduleMs, undefined, { signal });
    }
  }

  #lacksRoom(name: string): boolean {
    const pod = this.#watch.pod(name);
    return pod !== null && lacksRoom(pod);
  }
}
