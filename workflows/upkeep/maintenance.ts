import { proxyActivities } from '@temporalio/workflow';
import type { MaintenanceActivities } from '../../activities/upkeep/maintenance.ts';
import type { TerminatedWorkflowActivities } from '../../activities/upkeep/terminated-workflows.ts';
import { upkeep } from '../activity-profiles.ts';

const activities = proxyActivities<MaintenanceActivities & TerminatedWorkflowActivities>(upkeep);

/** The result of one round. */
export interface MaintenanceReport {
  partitionsMade: number;
  partitionsDropped: number;
  idempotencyKeysPurged: number;
  eventsPurged: number;
  notificationsPurged: number;
  endedSandboxesPurged: number;
  signInsPurged: number;
  webhookPartitionsMade: number;
  webhookPartitionsDropped: number;
  webhookDeliveriesPurged: number;
  usageEventsSummed: number;
  workflowsReplaced: number;
}

/**
 * One round of upkeep: makes the partitions for the metrics of the coming days, drops old partitions, removes rows past
 * their retention, adds usage records to their sums, and repairs what terminated workflows leave behind. The schedule
 * `maintenance` starts it each hour. A task that fails does not stop the others.
 */
export async function maintenance(): Promise<MaintenanceReport> {
  const [
    made,
    dropped,
    keys,
    events,
    notifications,
    sandboxes,
    signIns,
    weeksMade,
    weeksDropped,
    deliveries,
    usage,
    replaced,
  ] = await Promise.allSettled([
    activities.makeMetricsPartitions(),
    activities.dropOldMetricsPartitions(),
    activities.purgeIdempotencyKeys(),
    activities.purgeEvents(),
    activities.purgeNotifications(),
    activities.purgeEndedSandboxes(),
    activities.purgeSignIns(),
    activities.makeWebhookPartitions(),
    activities.dropOldWebhookPartitions(),
    activities.purgeWebhookDeliveries(),
    activities.keepUsage().then(({ eventsSummed }) => eventsSummed),
    activities.replaceTerminatedWorkflows(),
  ]);
  return {
    partitionsMade: unwrapResult(made),
    partitionsDropped: unwrapResult(dropped),
    idempotencyKeysPurged: unwrapResult(keys),
    eventsPurged: unwrapResult(events),
    notificationsPurged: unwrapResult(notifications),
    endedSandboxesPurged: unwrapResult(sandboxes),
    signInsPurged: unwrapResult(signIns),
    webhookPartitionsMade: unwrapResult(weeksMade),
    webhookPartitionsDropped: unwrapResult(weeksDropped),
    webhookDeliveriesPurged: unwrapResult(deliveries),
    usageEventsSummed: unwrapResult(usage),
    workflowsReplaced: unwrapResult(replaced),
  };
}

function unwrapResult(settled: PromiseSettledResult<number>): number {
  if (settled.status === 'rejected') throw settled.reason;
  return settled.value;
}
