import type { EntityManager } from '@mikro-orm/postgresql';
import { type UsageType, usageTypes } from '../../domain/usage/types.ts';
import type { UsageWindow } from '../../domain/usage/window.ts';
import { query } from '../core/query.ts';
import type { SqlCondition } from '../core/scope.ts';
import { quantity, type UsageOf, units, usageIn } from './usage-sums.ts';

/** Totals of usage for people: numbers made from decimals that are rounded to a millionth. */
export interface UsageTotals {
  cpuHours: number;
  memoryGbHours: number;
  storageGbHours: number;
  trafficGb: number;
  templateStorageGbHours: number;
  /** Measured and not charged. */
  cpuHoursUsed: number;
  memoryGbHoursUsed: number;
  cost: number;
}

/** The grouping of usage: by a column, or by the values of a key of the sandboxes' metadata. */
export type UsageGrouping = { column: 'project_id' | 'user_id' } | { metadataKey: string };

export interface UsageGroup {
  /** Null: the group of usage without a value. */
  value: string | null;
  totals: UsageTotals;
}

/** The maximum number of groups in one report. Those with the highest costs are shown. */
const maxUsageGroups = 1000;

/** Columns that add up rows with `quantity`, `cost` and `usage_type`. */
const totals = (() => {
  const sum = (type: UsageType, per: number) =>
    `coalesce(round(sum(quantity) filter (where usage_type = '${type}') / ${per}, 6), 0)::float8`;
  return `${sum('cpu_seconds', 3600)} as cpu_hours, ${sum('ram_gb_seconds', 3600)} as memory_gb_hours,
    ${sum('sandbox_storage_gb_seconds', 3600)} as storage_gb_hours, ${sum('traffic_gb', 1)} as traffic_gb,
    ${sum('template_storage_gb_seconds', 3600)} as template_storage_gb_hours,
    ${sum('cpu_seconds_used', 3600)} as cpu_hours_used, ${sum('ram_gb_seconds_used', 3600)} as memory_gb_hours_used,
    coalesce(round(sum(cost), 6), 0)::float8 as cost`;
})();

interface TotalsRow {
  cpu_hours: number;
  memory_gb_hours: number;
  storage_gb_hours: number;
  traffic_gb: number;
  template_storage_gb_hours: number;
  cpu_hours_used: number;
  memory_gb_hours_used: number;
  cost: number;
}

const toUsageTotals = (row: TotalsRow): UsageTotals => ({
  cpuHours: row.cpu_hours,
  memoryGbHours: row.memory_gb_hours,
  storageGbHours: row.storage_gb_hours,
  trafficGb: row.traffic_gb,
  templateStorageGbHours: row.template_storage_gb_hours,
  cpuHoursUsed: row.cpu_hours_used,
  memoryGbHoursUsed: row.memory_gb_hours_used,
  cost: row.cost,
});

/** Sums of a query like `usageIn`, grouped by an expression `by` over its columns. */
const summedBy = (used: string, by: string) => `
  select value, usage_type, ${quantity} as quantity, ${quantity} * unit_price as cost
    from (select ${by} as value, usage_type, unit_price, sum(amount) as amount from (${used}) used group by 1, 2, 3) used
    join ${units} using (usage_type)`;

/** The totals of usage in a window. */
export async function readUsageTotals(
  em: EntityManager,
  of: UsageOf,
  window: UsageWindow,
  now: Date,
): Promise<UsageTotals> {
  const used = usageIn(of, window, now);
  const [row] = await query<TotalsRow>(
    em.fork(),
    `select ${totals} from (${summedBy(used.sql, 'null')}) used`,
    used.values,
  );
  return toUsageTotals(row!);
}

/** The same by groups, those with the highest costs first, and the number of groups. */
export async function readUsageGroups(
  em: EntityManager,
  of: UsageOf,
  window: UsageWindow,
  by: UsageGrouping,
  now: Date,
): Promise<{ groups: UsageGroup[]; total: number }> {
  const used = 'column' in by ? null : labelledUsage(of, window, by.metadataKey, now);
  const { sql, values } = used ?? usageIn(of, window, now);
  const expression = 'column' in by ? `nullif(${by.column}, '')` : 'label';
  const rows = await query<TotalsRow & { value: string | null; total: number }>(
    em.fork(),
    `select value, ${totals}, (count(*) over ())::int as total from (${summedBy(sql, expression)}) used
      group by value having bool_or(quantity > 0) order by sum(cost) desc, value nulls last limit ${maxUsageGroups}`,
    values,
  );
  return { groups: rows.map((row) => ({ value: row.value, totals: toUsageTotals(row) })), total: rows[0]?.total ?? 0 };
}

/** All usage with its label. Usage without a label is all usage less the labelled usage. */
function labelledUsage(of: UsageOf, window: UsageWindow, key: string, now: Date): SqlCondition {
  const [all, labelled] = [usageIn(of, window, now), usageIn(of, window, now, key)];
  const columns = 'usage_type, unit_price';
  return {
    sql: `with everything as (${all.sql}), labelled as (${labelled.sql})
      select ${columns}, amount, label from labelled
      union all select ${columns}, amount, null from everything
      union all select ${columns}, -amount, null from labelled`,
    values: [...all.values, ...labelled.values],
  };
}

/** The usage of each day (UTC) of a window, without days without usage. */
export async function readUsageByDay(
  em: EntityManager,
  of: UsageOf,
  window: UsageWindow,
  now: Date,
): Promise<{ date: string; totals: UsageTotals }[]> {
  const used = usageIn(of, window, now);
  const rows = await query<TotalsRow & { date: string }>(
    em.fork(),
    `select value as date, ${totals} from (${summedBy(used.sql, "to_char(at at time zone 'UTC', 'YYYY-MM-DD')")}) used
      group by value having bool_or(quantity > 0) order by value`,
    used.values,
  );
  return rows.map((row) => ({ date: row.date, totals: toUsageTotals(row) }));
}

/** The cost of each charged type, and its share in percent. */
export async function readCosts(
  em: EntityManager,
  of: UsageOf,
  window: UsageWindow,
  now: Date,
): Promise<{ usageType: UsageType; cost: number; percentage: number }[]> {
  const used = usageIn(of, window, now);
  const charged = Object.entries(usageTypes).flatMap(([type, kind]) => (kind.charged ? [type] : []));
  const rows = await query<{ usage_type: UsageType; cost: number; percentage: number }>(
    em.fork(),
    `select usage_type, round(sum(cost), 6)::float8 as cost,
            coalesce(round(100 * sum(cost) / nullif(sum(sum(cost)) over (), 0), 2), 0)::float8 as percentage
       from (${summedBy(used.sql, 'null')}) used where usage_type = any(?::text[])
      group by 1 having bool_or(quantity > 0) order by sum(cost) desc, 1`,
    [...used.values, `{${charged.join(',')}}`],
  );
  return rows.map((row) => ({ usageType: row.usage_type, cost: row.cost, percentage: row.percentage }));
}
