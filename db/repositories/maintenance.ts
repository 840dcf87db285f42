import type { EntityManager } from '@mikro-orm/postgresql';
import { metricsKeptDays } from '../../domain/metrics-range.ts';

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

const today = "(now() at time zone 'UTC')::date";

async function patiently(em: EntityManager, call: string): Promise<number> {
  return em.fork().transactional(async (tx) => {
    await tx.execute(`set local lock_timeout = '${patienceSeconds}s'`);
    const [row] = (await tx.execute(`select ${call} as count`)) as { count: number }[];
    return row!.count;
  });
}
