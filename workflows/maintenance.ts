import { proxyActivities } from '@temporalio/workflow';
import type { MaintenanceActivities } from '../activities/maintenance.ts';

/** Each is tried until the next round would do the same anyway. */
const upkeep = proxyActivities<MaintenanceActivities>({
  startToCloseTimeout: '10m',
  scheduleToCloseTimeout: '50m',
  retry: { initialInterval: '5s', maximumInterval: '5m' },
});

/** How much a round did. */
export interface MaintenanceReport {
  partitionsMade: number;
  partitionsDropped: number;
  idempotencyKeysPurged: number;
}

/**
 * One round of upkeep: partitions for the metrics of the coming days, those of old days away, replies of idempotency
 * keys that are kept no longer away. Started each hour by the schedule `maintenance`. What fails holds nothing else up.
 */
export async function maintenance(): Promise<MaintenanceReport> {
  const [made, dropped, purged] = await Promise.allSettled([
    upkeep.makeMetricsPartitions(),
    upkeep.dropOldMetricsPartitions(),
    upkeep.purgeIdempotencyKeys(),
  ]);
  return {
    partitionsMade: resultOf(made),
    partitionsDropped: resultOf(dropped),
    idempotencyKeysPurged: resultOf(purged),
  };
}

function resultOf(settled: PromiseSettledResult<number>): number {
  if (settled.status === 'rejected') throw settled.reason;
  return settled.value;
}
