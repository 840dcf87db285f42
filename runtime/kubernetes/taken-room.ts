import { setTimeout as sleep } from 'node:timers/promises';
import type { DriverLogger } from '../driver-logger.ts';
import { isOverQuota } from './api-errors.ts';
import type { ClusterWatch } from './cluster-watch.ts';
import { lacksRoom } from './pod-state.ts';
import type { WarmPods } from './warm-pods.ts';

/** How long a quota may still count deleted objects. */
const quotaMs = 15_000;
const askAgainMs = 300;
/** How long the scheduler gets to place the pod after warm pods are gone. */
const scheduleMs = 1500;

/** Ends warm pods for sandboxes that find no room: at first one pod, then twice as many each time. */
export class TakenRoom {
  readonly #watch: ClusterWatch;
  readonly #pods: Pick<WarmPods, 'giveWay'>;
  readonly #logger: DriverLogger;

  constructor(watch: ClusterWatch, pods: Pick<WarmPods, 'giveWay'>, logger: DriverLogger) {
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
          if ((await this.#pods.giveWay(count)) === 0) throw error;
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
   * @returns a function to be called each time that no node has room for the pod
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
