import { setTimeout as sleep } from 'node:timers/promises';
import type { DriverLogger } from '../driver-logger.ts';
import { isOverQuota } from './api-errors.ts';
import type { ClusterWatch } from './cluster-watch.ts';
import { lacksCapacity } from './pod-state.ts';
import type { WarmPods } from './warm-pods.ts';

/** How long a quota may still count deleted objects. */
const quotaMs = 15_000;
const askAgainMs = 300;
/** How long the scheduler gets to place the pod after warm pods are gone. */
const scheduleMs = 1500;

/** Evicts warm pods for sandboxes that find no capacity: at first one pod, then twice as many each time. */
export class WarmPodEviction {
  readonly #watch: ClusterWatch;
  readonly #pods: Pick<WarmPods, 'evict'>;
  readonly #logger: DriverLogger;

  constructor(watch: ClusterWatch, pods: Pick<WarmPods, 'evict'>, logger: DriverLogger) {
    this.#watch = watch;
    this.#pods = pods;
    this.#logger = logger;
  }

  /** Repeats `act` while a quota refuses it and warm pods can be ended. @throws the error of the last attempt */
  async within<Result>(act: () => Promise<Result>, signal: AbortSignal): Promise<Result> {
    let retryUntilMs = 0;
    for (let count = 1; ; ) {
      try {
        return await act();
      } catch (error) {
        if (!isOverQuota(error) || signal.aborted) throw error;
        if (performance.now() >= retryUntilMs) {
          if ((await this.#pods.evict(count)) === 0) throw error;
          count *= 2;
          retryUntilMs = performance.now() + quotaMs;
        }
        await sleep(askAgainMs, undefined, { signal });
      }
    }
  }

  /**
   * Ends warm pods until a pod of a sandbox has a node.
   * @param signal ends this
   * @returns a function to be called each time that no node has capacity for the pod
   */
  forPod(name: string, signal: AbortSignal): () => void {
    let isEvicting = false;
    return () => {
      if (isEvicting) return;
      isEvicting = true;
      this.#evictFor(name, signal)
        .catch((error) => {
          if (!signal.aborted) this.#logger.warn({ err: error, pod: name }, 'warm pods could not give way');
        })
        .finally(() => {
          isEvicting = false;
        });
    };
  }

  async #evictFor(name: string, signal: AbortSignal): Promise<void> {
    for (let count = 1; !signal.aborted && this.#lacksCapacity(name); count *= 2) {
      if ((await this.#pods.evict(count)) === 0) return;
      await sleep(scheduleMs, undefined, { signal });
    }
  }

  #lacksCapacity(name: string): boolean {
    const pod = this.#watch.pod(name);
    return pod !== null && lacksCapacity(pod);
  }
}
