import type { EntityManager } from '@mikro-orm/postgresql';
import { metricsKeptDays } from '../../domain/usage/metrics-range.ts';
import { query } from '../core/query.ts';

/** Partitions for metrics exist this many days in advance. */
const partitionDaysAhead = 3;
const webhookDaysAhead = 21;

/** How long a statement waits for queries that block a partition. Then it is cancelled and tried again later. */
const lockTimeoutSeconds = 5;

/** Makes the missing partitions for the metrics of the coming days. @returns their number */
export function makeMetricsPartitions(em: EntityManager): Promise<number> {
  return callWithLockTimeout(em, `make_metrics_partitions(${today}, ${today} + ${partitionDaysAhead})`);
}

/** Removes the days whose samples are all older than seven days. @returns the number of dropped partitions */
export function dropOldMetricsPartitions(em: EntityManager): Promise<number> {
  return callWithLockTimeout(em, `drop_metrics_partitions(${today} - ${metricsKeptDays})`);
}

/** Makes the missing partitions for the webhook deliveries of the coming weeks. @returns their number */
export function makeWebhookPartitions(em: EntityManager): Promise<number> {
  return callWithLockTimeout(em, `make_webhook_partitions(${today}, ${today} + ${webhookDaysAhead})`);
}

/** Removes the weeks whose deliveries are all older than that. @returns the number of dropped partitions */
export function dropOldWebhookPartitions(em: EntityManager, keptDays: number): Promise<number> {
  return callWithLockTimeout(em, `drop_webhook_partitions(${today} - ${Math.ceil(keptDays)})`);
}

const today = "(now() at time zone 'UTC')::date";

async function callWithLockTimeout(em: EntityManager, call: string): Promise<number> {
  return em.fork().transactional(async (tx) => {
    await query(tx, `set local lock_timeout = '${lockTimeoutSeconds}s'`);
    const [row] = await query<{ count: number }>(tx, `select ${call} as count`);
    return row!.count;
  });
}
