import { type ApplicationFailure, type CancellationScope, Trigger } from '@temporalio/workflow';
import { type HostFailure, readExit, refused } from './sandbox-failure.ts';

/** Work on a host that was given up. Whether it was done there is not known, and nobody waits for it any more. */
export class HostLostError extends Error {
  override name = 'HostLostError';
}

/** What a sandbox that counted on its host's processes fails with. */
export const hostLostFailure: HostFailure = {
  reason: 'host_lost',
  failure: { message: 'The host of the sandbox was lost', ...readExit(undefined) },
};

/** The refusal of what needs the one host that has the sandbox's disk. */
export function hostUnavailable(): ApplicationFailure {
  return refused('host_unavailable', 'The host of this sandbox is away; try again when it is back');
}

/** Whether a sandbox's host was given up. */
export class HostLoss {
  #trigger = newTrigger();
  #happened = false;

  get happened(): boolean {
    return this.#happened;
  }

  tell(): void {
    this.#happened = true;
    this.#trigger.reject(new HostLostError('The host was lost'));
  }

  /** The sandbox has another host, or needs none at present. */
  forget(): void {
    if (!this.#happened) return;
    this.#happened = false;
    this.#trigger = newTrigger();
  }

  /**
   * Waits for work on the host, as long as there is one. What the work still does, the host undoes when it reconciles.
   * @throws {HostLostError} and what `work` throws
   */
  async unlessLost<Result>(scope: CancellationScope, work: () => Promise<Result>): Promise<Result> {
    if (this.#happened) throw new HostLostError('The host was lost');
    const answer = scope.run(work);
    try {
      return await Promise.race([answer, this.#trigger]);
    } catch (error) {
      if (error instanceof HostLostError) {
        answer.catch(() => {});
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
