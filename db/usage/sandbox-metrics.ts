import type { EntityManager } from '@mikro-orm/postgresql';
import type { SandboxId } from '../../domain/ids.ts';
import type { MetricsRange } from '../../domain/usage/metrics-range.ts';
import { query } from '../core/query.ts';
import { type Scope, withinScope } from '../core/scope.ts';

/** The use of one sandbox since its previous sample, and its current values. */
export interface MeteredUsage {
  sandboxId: SandboxId;
  /** Processor seconds and wall-clock seconds between the two samples. */
  cpuSeconds: number;
  overSeconds: number;
  memoryBytes: number;
  diskBytes: number;
  diskTotalBytes: number;
  /** Bytes since the last sample, from the sandbox's view. */
  receivedBytes: number;
  sentBytes: number;
}

/**
 * Stores a sample of many sandboxes in one statement. Their sizes (cores, memory) are taken from their rows. A sandbox
 * without a row is left out. A repeated sample of the same time is stored once.
 */
export async function insertSamples(em: EntityManager, at: Date, usages: readonly MeteredUsage[]): Promise<void> {
  if (usages.length === 0) return;
  const column = (value: (usage: MeteredUsage) => string | number) => `{${usages.map(value).join(',')}}`;
  const whole = (value: (usage: MeteredUsage) => number) => column((usage) => Math.max(0, Math.round(value(usage))));
  await query(
    em.fork(),
    `insert into sandbox_metrics (sandbox_id, sampled_at, cpu_count, cpu_used_pct, mem_total, mem_used, disk_total,
                                  disk_used, received_bytes, sent_bytes)
     select s.sandbox_id, ?::timestamptz, s.cpu_count, least(100, 100 * u.cores / s.cpu_count),
            s.memory_mb * 1048576::bigint, least(u.memory, s.memory_mb * 1048576::bigint), u.disk_total, u.disk,
            u.received, u.sent
       from unnest(?::text[], ?::float8[], ?::bigint[], ?::bigint[], ?::bigint[], ?::bigint[], ?::bigint[])
              as u(sandbox_id, cores, memory, disk_total, disk, received, sent)
       join sandboxes s using (sandbox_id)
     on conflict do nothing`,
    [
      at.toISOString(),
      column((usage) => usage.sandboxId),
      column((usage) => Math.max(0, usage.cpuSeconds / usage.overSeconds)),
      whole((usage) => usage.memoryBytes),
      whole((usage) => usage.diskTotalBytes),
      whole((usage) => usage.diskBytes),
      whole((usage) => usage.receivedBytes),
      whole((usage) => usage.sentBytes),
    ],
  );
}

/**
 * Adds up the samples of whole minutes, so that a query over days reads a twelfth of the rows, and also their quarters
 * of an hour. A minute that was already added up stays unchanged.
 * @param from the first minute
 * @param to the end of the last minute, which must have passed for these sandboxes
 */
export async function addUpMinutes(
  em: EntityManager,
  sandboxIds: readonly SandboxId[],
  from: Date,
  to: Date,
): Promise<void> {
  if (sandboxIds.length === 0) return;
  await query(
    em.fork(),
    `insert into sandbox_metrics_minutes (sandbox_id, sampled_at, samples, cpu_count, cpu_used_pct_sum, mem_total,
                                          mem_used_sum, disk_total, disk_used_sum, received_bytes, sent_bytes)
     select sandbox_id, date_trunc('minute', sampled_at), count(*), max(cpu_count), sum(cpu_used_pct::float8),
            max(mem_total), sum(mem_used), max(disk_total), sum(disk_used), sum(received_bytes), sum(sent_bytes)
       from sandbox_metrics
      where sandbox_id = any(?::text[]) and sampled_at >= ?::timestamptz and sampled_at < ?::timestamptz
      group by 1, 2
     on conflict do nothing`,
    [`{${sandboxIds.join(',')}}`, from.toISOString(), to.toISOString()],
  );
}

/** The sandboxes that were, or may have been, sampled on a host since then. */
export async function sandboxesSampledSince(em: EntityManager, hostId: string, since: Date): Promise<SandboxId[]> {
  const rows = await query<{ sandbox_id: SandboxId }>(
    em.fork(),
    'select sandbox_id from sandboxes where host_id = ? and (holds_compute or updated_at >= ?::timestamptz)',
    [hostId, since.toISOString()],
  );
  return rows.map((row) => row.sandbox_id);
}

/** Means over one step. Bytes, and percent of all of the sandbox's cores. */
export interface MetricsItem {
  at: Date;
  cpuCount: number;
  cpuUsedPct: number;
  memTotal: number;
  memUsed: number;
  diskTotal: number;
  diskUsed: number;
}

const minuteMs = 60_000;
const quarterMs = 15 * minuteMs;
/** A minute is added up soon after its end. Until then its samples are read. */
const addedUpAfterMs = 2 * minuteMs;

const samples = `select sampled_at, 1, cpu_count, cpu_used_pct::float8, mem_total, mem_used::float8, disk_total, disk_used::float8
  from sandbox_metrics`;
const addedUp = (unit: 'minutes' | 'quarters') =>
  `select sampled_at, samples, cpu_count, cpu_used_pct_sum, mem_total, mem_used_sum, disk_total, disk_used_sum
     from sandbox_metrics_${unit}`;

/**
 * A sandbox's metrics from `start` to `end`, both included, in steps that begin at whole multiples of `stepSeconds`.
 * Steps without a sample are left out. Steps of whole minutes or quarters of an hour are read from their tables, and
 * finer rows only at the edges. The result is the same.
 */
export async function readMetrics(
  em: EntityManager,
  sandboxId: SandboxId,
  { start, end, stepSeconds }: MetricsRange,
  now = new Date(),
): Promise<MetricsItem[]> {
  const overMs = Math.min(end.getTime(), now.getTime() - addedUpAfterMs);
  const within = (unitMs: number) => {
    const fromMs = Math.ceil(start.getTime() / unitMs) * unitMs;
    const toMs = Math.floor(overMs / unitMs) * unitMs;
    return (stepSeconds * 1000) % unitMs === 0 && toMs > fromMs ? { fromMs, toMs } : null;
  };
  const [minutes, quarters] = [within(minuteMs), within(quarterMs)];
  const values: string[] = [];
  const arm = (select: string, fromMs: number, toMs: number, isOpen = true) => {
    values.push(sandboxId, new Date(fromMs).toISOString(), new Date(toMs).toISOString());
    const before = isOpen ? '<' : '<=';
    return `${select} where sandbox_id = ? and sampled_at >= ?::timestamptz and sampled_at ${before} ?::timestamptz`;
  };
  const [startMs, endMs] = [start.getTime(), end.getTime()];
  const arms: string[] = [];
  if (quarters) arms.push(arm(addedUp('quarters'), quarters.fromMs, quarters.toMs));
  if (minutes) {
    arms.push(arm(addedUp('minutes'), minutes.fromMs, quarters?.fromMs ?? minutes.toMs));
    if (quarters) arms.push(arm(addedUp('minutes'), quarters.toMs, minutes.toMs));
    arms.push(arm(samples, startMs, minutes.fromMs));
  }
  arms.push(arm(samples, minutes?.toMs ?? startMs, endMs, false));
  // Only sums are selected, because a week has ten thousand rows.
  const rows = await query<MetricsRow>(
    em.fork(),
    `select extract(epoch from bucket)::float8 as at, cpu_count, cpu / samples as cpu_used_pct, mem_total::float8,
            mem / samples as mem_used, disk_total::float8, disk / samples as disk_used
       from (
         select date_bin(?::interval, sampled_at, 'epoch') as bucket, sum(samples) as samples, max(cpu_count) as cpu_count,
                sum(cpu) as cpu, max(mem_total) as mem_total, sum(mem) as mem, max(disk_total) as disk_total,
                sum(disk) as disk
           from (${arms.join(' union all ')}) metrics(sampled_at, samples, cpu_count, cpu, mem_total, mem, disk_total, disk)
          group by 1
       ) steps order by bucket`,
    [`${stepSeconds} seconds`, ...values],
  );
  return rows.map((row) => ({
    at: new Date(row.at * 1000),
    cpuCount: row.cpu_count,
    cpuUsedPct: Math.round(row.cpu_used_pct * 100) / 100,
    memTotal: row.mem_total,
    memUsed: Math.round(row.mem_used),
    diskTotal: row.disk_total,
    diskUsed: Math.round(row.disk_used),
  }));
}

interface MetricsRow {
  /** Unix seconds. */
  at: number;
  cpu_count: number;
  cpu_used_pct: number;
  mem_total: number;
  mem_used: number;
  disk_total: number;
  disk_used: number;
}

/**
 * Percent, over the last minute, of the running sandboxes that a caller may see. Null: none of them was sampled in it.
 */
export interface UsageAverages {
  cpuPct: number | null;
  memoryPct: number | null;
}

/** Each sandbox has the same weight, regardless of its number of samples. */
export async function readUsageAverages(em: EntityManager, scope: Scope, now: Date): Promise<UsageAverages> {
  const mine = withinScope(scope, 's');
  const [row] = await query<{ cpu: number | null; memory: number | null }>(
    em,
    `select round(avg(u.cpu)::numeric, 2)::float8 as cpu, round(avg(u.memory)::numeric, 2)::float8 as memory
       from sandboxes s
       cross join lateral (
         select avg(cpu_used_pct) as cpu, avg(100.0 * mem_used / mem_total) as memory
           from sandbox_metrics m
          where m.sandbox_id = s.sandbox_id and m.sampled_at > ?::timestamptz - interval '1 minute'
            and m.sampled_at <= ?::timestamptz
       ) u
      where s.deleted_at is null and s.status = 'running' and ${mine.sql}`,
    [now.toISOString(), now.toISOString(), ...mine.values],
  );
  return { cpuPct: row!.cpu, memoryPct: row!.memory };
}
