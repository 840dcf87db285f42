import type { EntityManager } from '@mikro-orm/postgresql';
import { metricsKeptDays } from '../../domain/metrics-range.ts';
import { query } from '../query.ts';

/** For how many days to come the partitions of metrics are there already. */
const partitionDaysAhead = 3;
const webhookDaysAhead = 21;

/** A query in the way of a partition ends within this; the statement is given up and tried again later. */
const patienceSeconds = 5;

/** Makes the partitions that the coming days' metrics go to. @returns how many were missing */
export function makeMetricsPartitions(em: EntityManager): Promise<number> {
  return patiently(em, `make_metrics_partitions(${today}, ${today} + ${partitionDaysAhead})`);
}

/** Removes the days whose every sample is older than seven days. @returns how many partitions went */
export function dropOldMetricsPartitions(em: EntityManager): Promise<number> {
  return patiently(em, `drop_metrics_partitions(${today} - ${metricsKeptDays})`);
}

/** Makes the partitions of the coming weeks' deliveries of webhooks. @returns how many were missing */
export function makeWebhookPartitions(em: EntityManager): Promise<number> {
  return patiently(em, `make_webhook_partitions(${today}, ${today} + ${webhookDaysAhead})`);
}

/** Removes the weeks whose every delivery is older than that. @returns how many partitions went */
export function dropOldWebhookPartitions(em: EntityManager, keptDays: number): Promise<number> {
  return patiently(em, `drop_webhook_partitions(${today} - ${Math.ceil(keptDays)})`);
}

const today = "(now() at time zone 'UTC')::date";

async function patiently(em: EntityManager, call: string): Promise<number> {
  return em.fork().transactional(async (tx) => {
    await query(tx, `set local lock_timeout = '${patienceSeconds}s'`);
    const [row] = await query<{ count: number }>(tx, `select ${call} as count`);
    return row!.count;
  });
}
