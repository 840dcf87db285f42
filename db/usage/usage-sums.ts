import type { EntityManager } from '@mikro-orm/postgresql';
import type { ProjectId } from '../../domain/ids.ts';
import { type UsageType, usageTypeNames, usageTypes } from '../../domain/usage/types.ts';
import { splitWindow, type UsageWindow } from '../../domain/usage/window.ts';
import { query } from '../core/query.ts';
import { joinConditions, type Scope, type SqlCondition, withinScope } from '../core/scope.ts';
import { millisecondsSql, partsByPrice } from './usage-events.ts';

/**
 * The usage of one type at one price. Exact decimals as strings: `cost` is `quantity` times `unitPrice`, not rounded.
 */
export interface UsageSum {
  usageType: UsageType;
  /** In the small unit of the type: see `usageTypes`. */
  amount: string;
  quantity: string;
  unitPrice: string;
  cost: string;
}

/** The selected usage: that of the scope, of one project or of all. */
export interface UsageOf {
  scope: Scope;
  projectId?: ProjectId | undefined;
}

/**
 * The usage in a window, exact to the millisecond: recorded usage, and the later usage of living sandboxes. A type has
 * a sum for each price that it had. Unused types are left out.
 * @param now the time up to which living sandboxes are counted
 */
export async function sumUsage(
  em: EntityManager,
  of: UsageOf,
  window: UsageWindow,
  now = new Date(),
): Promise<UsageSum[]> {
  const used = usageIn(of, window, now);
  // In a transaction it uses the same connection, because waiting for another one could take forever.
  const rows = await query<{
    usage_type: UsageType;
    amount: string;
    unit_price: string;
    quantity: string;
    cost: string;
  }>(
    em.isInTransaction() ? em : em.fork(),
    `select usage_type, amount::text, trim_scale(unit_price)::text as unit_price, ${quantity}::text as quantity,
            trim_scale(${quantity} * unit_price)::text as cost
       from (select usage_type, unit_price, sum(amount) as amount from (${used.sql}) used group by 1, 2) used
       join ${units} using (usage_type)
      where amount > 0 order by usage_type, unit_price`,
    used.values,
  );
  return rows.map((row) => ({
    usageType: row.usage_type,
    amount: row.amount,
    quantity: row.quantity,
    unitPrice: row.unit_price,
    cost: row.cost,
  }));
}

/** A table of the number of small units in one unit of a type. */
export const units = `(values ${usageTypeNames
  .map((type) => `('${type}', ${usageTypes[type].perUnit}::numeric)`)
  .join(', ')}) units(usage_type, per_unit)`;

/** Exact, because each `per_unit` divides ten to the power of 30. */
export const quantity = 'trim_scale(round(amount::numeric, 30) / per_unit)';

/**
 * A query of the usage within a window. Rows: `at` (in the row's part of the window), `user_id`, `project_id`,
 * `usage_type`, `unit_price`, `amount` in the small unit of the type, `label`. Whole days and hours are read from their
 * sums and the pending events. The rest is read from single events, cut at the window, and from the rows of living
 * sandboxes.
 * @param labelKey a key of the sandboxes' metadata, whose values are the labels; then only sandboxes with this key are
 * counted. Null: all usage, without labels
 */
export function usageIn(of: UsageOf, window: UsageWindow, now: Date, labelKey: string | null = null): SqlCondition {
  const { days, hours, edges } = splitWindow(window);
  const arms: SqlCondition[] = [];
  const whose = (alias: string, ownerColumn = 'user_id') => {
    const conditions: SqlCondition[] = [withinScope(of.scope, alias, ownerColumn)];
    if (of.projectId) conditions.push({ sql: `${alias}.project_id = ?`, values: [of.projectId] });
    return joinConditions(conditions);
  };
  const iso = (ms: number) => new Date(ms).toISOString();
  const sums = labelKey === null ? 'usage' : 'usage_label';
  const label = labelKey === null ? [] : [labelKey];
  const labelSql = (alias: string) => (labelKey === null ? 'null' : `${alias}.metadata ->> ?::text`);
  const has = (alias: string) => (labelKey === null ? '' : ` and ${alias}.metadata ->> ?::text is not null`);
  const resources = labelKey === null ? '' : 'join usage_resources r using (resource_id)';
  for (const [table, spans] of [
    [`${sums}_days`, days],
    [`${sums}_hours`, hours],
  ] as const) {
    for (const { startMs, endMs } of spans) {
      const mine = whose('u');
      arms.push({
        sql: `select u.bucket as at, u.user_id, u.project_id, u.usage_type, u.unit_price, u.amount::numeric as amount,
                     ${labelSql('u')} as label
                from ${table} u
               where ${mine.sql} and u.bucket >= ?::timestamptz and u.bucket < ?::timestamptz${has('u')}`,
        values: [...label, ...mine.values, iso(startMs), iso(endMs), ...label],
      });
    }
  }
  for (const { startMs, endMs } of [...days, ...hours]) {
    const mine = whose('p');
    arms.push({
      sql: `select p.period_start as at, p.user_id, p.project_id, p.usage_type, p.unit_price, p.amount::numeric as amount,
                   ${labelSql('r')} as label
              from usage_pending p ${resources}
             where ${mine.sql} and p.period_start >= ?::timestamptz and p.period_start < ?::timestamptz${has('r')}`,
      values: [...label, ...mine.values, iso(startMs), iso(endMs), ...label],
    });
  }
  // No event is longer than an hour. Both bounds of its end let Postgres use the index of accounts and ends.
  for (const { startMs, endMs } of edges) {
    const mine = whose('e');
    const [start, end] = [iso(startMs), iso(endMs)];
    arms.push({
      sql: `select greatest(e.period_start, ?::timestamptz) as at, e.user_id, e.project_id, e.usage_type, e.unit_price,
                   ${amountUpTo('least(e.period_end, ?::timestamptz)')}
                     - ${amountUpTo('greatest(e.period_start, ?::timestamptz)')} as amount, ${labelSql('r')} as label
              from usage_events e ${resources}
             where ${mine.sql} and e.period_start < ?::timestamptz and e.period_end > ?::timestamptz
               and e.period_start > ?::timestamptz - interval '1 hour'
               and e.period_end < ?::timestamptz + interval '1 hour'${has('r')}`,
      values: [start, end, start, ...label, ...mine.values, end, start, start, end, ...label],
    });
  }
  const living = whose('s', 'owner_user_id');
  arms.push(
    usageOfTheLiving({ sql: `${living.sql}${has('s')}`, values: [...living.values, ...label] }, window, now, {
      sql: labelSql('s'),
      values: label,
    }),
  );
  return { sql: arms.map(({ sql }) => sql).join(' union all '), values: arms.flatMap(({ values }) => values) };
}

/** The whole part of an event's amount up to a time, so that the parts of an event always add up to it. */
const amountUpTo = (at: string) =>
  `div(e.amount * round(extract(epoch from ${at} - e.period_start) * 1000), round(extract(epoch from e.period_end - e.period_start) * 1000))`;

/** The usage of living sandboxes since their usage was last recorded. */
function usageOfTheLiving(
  whose: SqlCondition,
  { start, end }: UsageWindow,
  now: Date,
  label: SqlCondition,
): SqlCondition {
  const until = new Date(Math.min(end.getTime(), now.getTime())).toISOString();
  return {
    sql: `select living.at, s.owner_user_id as user_id, s.project_id, living.usage_type, living.unit_price, living.amount,
                 ${label.sql} as label
            from sandboxes s
            cross join lateral (select greatest(s.metered_until, ?::timestamptz) as since, ?::timestamptz as until) span
            cross join lateral ${usageInSpan} living
           where ${whose.sql} and s.phase_kind is not null and span.since < span.until`,
    values: [...label.values, start.toISOString(), until, ...whose.values],
  };
}

/**
 * The usage of a row `s` of the sandboxes from `since` to `until` of a row `span`, at the prices of each time:
 * `listRates` of the domain in SQL. Rows: `usage_type`, `unit_price`, `at`, `amount`.
 */
export const usageInSpan = `(
  select used.usage_type, price.unit_price, part.since as at, used.rate * ${millisecondsSql('part')} as amount
    from (select rates.*, span.since, span.until from (values
           ('cpu_seconds', s.cpu_count, s.phase_kind = 'running'),
           ('ram_gb_seconds', s.memory_mb, s.phase_kind = 'running'),
           ('sandbox_storage_gb_seconds', s.storage_gb, true)
         ) rates(usage_type, rate, counts) where counts) used
    ${partsByPrice})`;
