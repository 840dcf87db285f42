import { proxyActivities, proxyLocalActivities } from '@temporalio/workflow';
import type { SandboxHostActivities } from '../activities/sandbox-host.ts';
import type { SandboxLifeActivities } from '../activities/sandbox-life.ts';
import { hostEndingTaskQueue, hostTaskQueue } from '../domain/task-queues.ts';
import { oneAtATime } from './one-at-a-time.ts';

/** Writes of the row. They are tried until they succeed: a life must not end because Postgres is away for a while. */
export const rows = oneAtATime(
  proxyLocalActivities<SandboxLifeActivities>({
    startToCloseTimeout: '10s',
    retry: { initialInterval: '200ms', maximumInterval: '10s' },
  }),
);

/**
 * Starting may pull an image; a host that went silent is noticed by its heartbeat, one that is away by the queue's limit.
 * Most of the attempts are for an account that has its share of the host: the host itself ends a start that fails.
 */
export function startingOn(hostId: string) {
  return proxyActivities<Pick<SandboxHostActivities, 'startSandbox' | 'resumeSandbox' | 'restartSandbox'>>({
    taskQueue: hostTaskQueue(hostId),
    scheduleToStartTimeout: '20s',
    startToCloseTimeout: '20m',
    heartbeatTimeout: '10s',
    cancellationType: 'WAIT_CANCELLATION_COMPLETED',
    retry: { initialInterval: '500ms', maximumInterval: '10s', maximumAttempts: 30 },
  });
}

/** Pausing is a matter of milliseconds; if it is not, it has failed. */
export function pausingOn(hostId: string) {
  return proxyActivities<Pick<SandboxHostActivities, 'pauseSandbox'>>({
    taskQueue: hostTaskQueue(hostId),
    scheduleToStartTimeout: '20s',
    startToCloseTimeout: '30s',
    // Long enough for a host worker that was killed to be back.
    scheduleToCloseTimeout: '60s',
    heartbeatTimeout: '5s',
    retry: { initialInterval: '500ms', maximumInterval: '5s' },
  });
}

/** Cleaning has an end: what a host that is away could not clean, it cleans when it reconciles. */
export function cleaningOn(hostId: string) {
  return proxyActivities<Pick<SandboxHostActivities, 'stopSandbox' | 'removeSandbox'>>({
    taskQueue: hostEndingTaskQueue(hostId),
    scheduleToStartTimeout: '30s',
    startToCloseTimeout: '60s',
    scheduleToCloseTimeout: '3m',
    heartbeatTimeout: '5s',
    retry: { initialInterval: '500ms', maximumInterval: '10s' },
  });
}
