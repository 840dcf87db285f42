import { patched, proxyActivities } from '@temporalio/workflow';
import type { MaintenanceActivities } from '../activities/maintenance.ts';

/** Retried until shortly before the next round. */
const upkeep = proxyActivities<MaintenanceActivities>({
  startToCloseTimeout: '10m',
  scheduleToCloseTimeout: '50m',
  retry: { initialInterval: '5s', maximumInterval: '5m' },
});

/** What one round has done. */
export interface MaintenanceReport {
  partitionsMade: number;
  partitionsDropped: number;
  idempotencyKeysPurged: number;
  eventsPurged: number;
  notificationsPurged: number;
  endedSandboxesPurged: number;
}

/**
 * One round of upkeep: makes the partitions for the metrics of the coming days, drops those of old days, and removes rows
 * that are kept no longer. The schedule `maintenance` starts it each hour. A task that fails does not stop the others.
 */
export async function maintenance(): Promise<MaintenanceReport> {
  const purgesRows = patched('old-rows-are-purged');
  const [made, dropped, keys, events, notifications, sandboxes] = await Promise.allSettled([
    upkeep.makeMetricsPartitions(),
    upkeep.dropOldMetricsPartitions(),
    upkeep.purgeIdempotencyKeys(),
    purgesRows ? upkeep.purgeEvents() : 0,
    purgesRows ? upkeep.purgeNotifications() : 0,
    purgesRows ? upkeep.purgeEndedSandboxes() : 0,
  ]);
  return {
    partitionsMade: resultOf(made),
    partitionsDropped: resultOf(dropped),
    idempotencyKeysPurged: resultOf(keys),
    eventsPurged: resultOf(events),
    notificationsPurged: resultOf(notifications),
    endedSandboxesPurged: resultOf(sandboxes),
  };
}

function resultOf(settled: PromiseSettledResult<number>): number {
  if (settled.status === 'rejected') throw settled.reason;
  return settled.value;
}
