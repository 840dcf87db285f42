import type { EntityManager } from '@mikro-orm/postgresql';
import { metricsKeptDays } from '../../domain/metrics-range.ts';
import { keptHours as idempotencyKeptHours } from './idempotency.ts';

/** For how many days to come the partitions of metrics are there already. */
const partitionDaysAhead = 3;

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

/** Removes replies that are kept for nobody any more, some at a time. @returns how many went */
export async function purgeIdempotencyKeys(em: EntityManager, atOnce = 10_000): Promise<number> {
  for (let purged = 0; ; ) {
    const rows = (await em.fork().execute(
      `delete from idempotency_keys where ctid = any(array(
         select ctid from idempotency_keys where created_at < now() - interval '${idempotencyKeptHours} hours' limit ?))
       returning 1`,
      [atOnce],
    )) as unknown[];
    purged += rows.length;
    if (rows.length < atOnce) return purged;
  }
}

const today = "(now() at time zone 'UTC')::date";

async function patiently(em: EntityManager, call: string): Promise<number> {
  return em.fork().transactional(async (tx) => {
    await tx.execute(`set local lock_timeout = '${patienceSeconds}s'`);
    const [row] = (await tx.execute(`select ${call} as count`)) as { count: number }[];
    return row!.count;
  });
}
