import { proxyActivities, proxyLocalActivities } from '@temporalio/workflow';
import type { SandboxHostActivities } from '../../activities/sandbox-host.ts';
import type { SandboxLifeActivities } from '../../activities/sandbox-life.ts';
import { hostEndingTaskQueue, hostTaskQueue } from '../../domain/task-queues.ts';
import { oneAtATime } from './one-at-a-time.ts';

/** Writes to the row. Retried until they succeed: an outage of Postgres must not end a sandbox. */
export const rows = oneAtATime(
  proxyLocalActivities<SandboxLifeActivities>({
    startToCloseTimeout: '10s',
    retry: { initialInterval: '200ms', maximumInterval: '10s' },
  }),
);

/**
 * A start may pull an image, so it has long. A missing heartbeat shows that a host died, `scheduleToStartTimeout` that it
 * is away. Most attempts are for accounts that use their share of the host already; for other errors the host makes the
 * failure final after fewer.
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

/** Pausing takes milliseconds; one that takes much longer has failed. */
export function pausingOn(hostId: string) {
  return proxyActivities<Pick<SandboxHostActivities, 'pauseSandbox'>>({
    taskQueue: hostTaskQueue(hostId),
    scheduleToStartTimeout: '20s',
    startToCloseTimeout: '30s',
    // Long enough for a killed host worker to restart.
    scheduleToCloseTimeout: '60s',
    heartbeatTimeout: '5s',
    retry: { initialInterval: '500ms', maximumInterval: '5s' },
  });
}

/** Limited in time: a host that is away cleans up when it is back and reconciles. */
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
