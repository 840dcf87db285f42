import { type ApplicationFailure, type CancellationScope, Trigger } from '@temporalio/workflow';
import { type HostFailure, readExit, refused } from './failure.ts';

/** The host was given up while it worked. Whether it completed the work is unknown. */
export class HostLostError extends Error {
  override name = 'HostLostError';
}

/** The failure of a sandbox whose processes were on the lost host. */
export const hostLostFailure: HostFailure = {
  reason: 'host_lost',
  failure: { message: 'The host of the sandbox was lost', ...readExit(undefined) },
};

/** For commands that only the host with the sandbox's disk can carry out. */
export function hostUnavailable(): ApplicationFailure {
  return refused('host_unavailable', 'The host of this sandbox is away; try again when it is back');
}

/** Whether the sandbox's host was given up. */
export class HostLoss {
  #trigger = newTrigger();
  #happened = false;

  get happened(): boolean {
    return this.#happened;
  }

  record(): void {
    this.#happened = true;
    this.#trigger.reject(new HostLostError('The host was lost'));
  }

  /** Call when the sandbox has another host, or needs none at present. */
  reset(): void {
    if (!this.#happened) return;
    this.#happened = false;
    this.#trigger = newTrigger();
  }

  /**
   * Waits for work on the host until the host is lost. The host undoes what it still did when it reconciles.
   * @throws {HostLostError} and the errors of `work`
   */
  async unlessLost<Result>(scope: CancellationScope, work: () => Promise<Result>): Promise<Result> {
    if (this.#happened) throw new HostLostError('The host was lost');
    const result = scope.run(work);
    try {
      return await Promise.race([result, this.#trigger]);
    } catch (error) {
      if (error instanceof HostLostError) {
        result.catch(() => {});
        scope.cancel();
      }
      throw error;
    }
  }
}

function newTrigger(): Trigger<never> {
  const trigger = new Trigger<never>();
  trigger.then(undefined, () => {});
  return trigger;
}
