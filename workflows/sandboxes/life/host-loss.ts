import { type ApplicationFailure, type CancellationScope, Trigger } from '@temporalio/workflow';
import { type HostFailure, readExit, refused } from './failure.ts';

/** The host was lost during its work. It is unknown whether the host completed the work. */
export class HostLostError extends Error {
  override name = 'HostLostError';
}

/** The failure of a sandbox whose processes were on the lost host. */
export const hostLostFailure: HostFailure = {
  reason: 'host_lost',
  failure: { message: 'The host of the sandbox was lost', ...readExit(undefined) },
};

/** The refusal of commands that need the host with the sandbox's disk. */
export function hostUnavailable(): ApplicationFailure {
  return refused('host_unavailable', 'The host of this sandbox is away; try again when it is back');
}

/** Records whether the sandbox's host was lost. */
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

  /** Call this when the sandbox has another host, or currently needs no host. */
  reset(): void {
    if (!this.#happened) return;
    this.#happened = false;
    this.#trigger = newTrigger();
  }

  /**
   * Waits for work on the host, and stops waiting when the host is lost. The host undoes unfinished work when it
   * reconciles.
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
