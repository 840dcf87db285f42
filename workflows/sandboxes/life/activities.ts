import { proxyActivities, proxyLocalActivities } from '@temporalio/workflow';
import type { SandboxLifeActivities } from '../../../activities/sandboxes/life.ts';
import type { SandboxHostActivities } from '../../../activities/sandboxes/on-host.ts';
import type { SandboxPortActivities } from '../../../activities/sandboxes/ports.ts';
import { database, onHost } from '../../activity-profiles.ts';

/** Writes to the row. */
export const rows = oneAtATime(proxyLocalActivities<SandboxLifeActivities & SandboxPortActivities>(database));

export function startingOn(hostId: string) {
  type Starting = Pick<SandboxHostActivities, 'startSandbox' | 'resumeSandbox' | 'restartSandbox'>;
  return proxyActivities<Starting>(onHost.starting(hostId));
}

export function pausingOn(hostId: string) {
  return proxyActivities<Pick<SandboxHostActivities, 'pauseSandbox'>>(onHost.pausing(hostId));
}

export function exposingOn(hostId: string) {
  return proxyActivities<Pick<SandboxHostActivities, 'exposePorts'>>(onHost.exposingPorts(hostId));
}

export function cleaningOn(hostId: string) {
  return proxyActivities<Pick<SandboxHostActivities, 'stopSandbox' | 'removeSandbox'>>(onHost.cleaning(hostId));
}

/** The local activity that began last. Each workflow has its own copy of this module's state. */
let last: Promise<unknown> = Promise.resolve();

/**
 * Runs local activities one after the other. Two concurrent local activities may complete in either order, but a replay
 * completes them in the order in which they began. The workflow's next commands would then differ from its history, and
 * the workflow would be stuck.
 */
function oneAtATime<Activities extends object>(activities: Activities): Activities {
  return new Proxy(activities, {
    get(target, name) {
      const activity = Reflect.get(target, name) as (...args: unknown[]) => Promise<unknown>;
      return (...args: unknown[]) => {
        const turn = last.then(() => activity(...args));
        last = turn.catch(() => {});
        return turn;
      };
    },
  });
}
