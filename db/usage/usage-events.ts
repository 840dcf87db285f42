import type { EntityManager } from '@mikro-orm/postgresql';
import { meteredAfter, periodsUntil } from '../../domain/usage/periods.ts';
import { query } from '../core/query.ts';
import type { SqlCondition } from '../core/scope.ts';
import type { Sandbox } from '../sandboxes/sandbox.entity.ts';

type Metered = Pick<
  Sandbox,
  | 'sandboxId'
  | 'accountId'
  | 'ownerUserId'
  | 'projectId'
  | 'name'
  | 'cpuCount'
  | 'memoryMb'
  | 'storageGb'
  | 'metadata'
  | 'phaseKind'
  | 'meteredUntil'
>;

/**
 * The statements that record a sandbox's usage up to a time, for the phase, the owner and the project of the row
 * `before` the change. A period with a change of its price becomes two events. The same period is never recorded twice.
 * @param until the new value of the row's `meteredUntil`
 * @param source an addition to the statements' FROM, such as `, changed`; if it has no row, nothing is added
 */
export function usageStatements(before: Metered, until: Date | null, source = ''): SqlCondition[] {
  if (!until) return [];
  if (!before.meteredUntil) return [resourceStatement(before, source)];
  const { cpuCount, memoryMb, storageGb, phaseKind = null } = before;
  const life = { cpuCount, memoryMb, storageGb, phaseKind, meteredUntil: before.meteredUntil };
  const periods = periodsUntil(life, until);
  if (periods.length === 0) return [];
  const column = (value: (period: (typeof periods)[number]) => string | number) => `{${periods.map(value).join(',')}}`;
  return [
    {
      sql: `insert into usage_events (resource_id, account_id, user_id, project_id, usage_type, period_start, period_end,
                                      amount, unit_price)
        select ?::text, ?::text, ?::text, ?::text, used.usage_type, part.since, part.until,
               used.rate * ${millisecondsSql('part')}, price.unit_price
          from unnest(?::text[], ?::timestamptz[], ?::timestamptz[], ?::bigint[]) used(usage_type, since, until, rate)
          ${partsByPrice}${source}
        on conflict do nothing`,
      values: [
        ...[before.sandboxId, before.accountId, before.ownerUserId, before.projectId],
        ...[column(({ type }) => type), column(({ start }) => start.toISOString())],
        column(({ end }) => end.toISOString()),
        // A whole number, because the rate of a period is constant.
        column(({ start, end, amount }) => amount / (end.getTime() - start.getTime())),
      ],
    },
  ];
}

/**
 * Joins that cut each row of `used` (`usage_type`, `since`, `until`) at the changes of its price. `part` has `since` and
 * `until` of a part, `price` its `unit_price`.
 */
export const partsByPrice = `
  join usage_price_periods price
    on price.usage_type = used.usage_type and price.since < used.until and price.until > used.since
 cross join lateral (
   select greatest(price.since, used.since)::timestamptz(3) as since, least(price.until, used.until)::timestamptz(3) as until
 ) part`;

/** The milliseconds from `since` to `until` of a row: a whole number. */
export const millisecondsSql = <Row extends string>(row: Row) =>
  `round(extract(epoch from ${row}.until - ${row}.since) * 1000)` as const;

/** The facts about the sandbox that events refer to. They are stored when it first runs. */
function resourceStatement(sandbox: Metered, source: string): SqlCondition {
  return {
    sql: `insert into usage_resources (resource_id, account_id, name, cpu_count, memory_mb, metadata)
      select made.* from (values (?::text, ?::text, ?::text, ?::integer, ?::integer, ?::jsonb)) made${source}
      on conflict do nothing`,
    values: [
      ...[sandbox.sandboxId, sandbox.accountId, sandbox.name],
      ...[sandbox.cpuCount, sandbox.memoryMb, JSON.stringify(sandbox.metadata)],
    ],
  };
}

/**
 * Records the usage of a sandbox until `at`, before its owner or project changes. Call this in the transaction of that
 * change, with the row locked. The caller writes the row.
 */
export async function recordUsage(tx: EntityManager, sandbox: Sandbox, at: Date): Promise<void> {
  if (!sandbox.phaseKind) return;
  const meteredUntil = meteredAfter(sandbox.meteredUntil ?? null, at);
  for (const { sql, values } of usageStatements(sandbox, meteredUntil)) await query(tx, sql, values);
  sandbox.meteredUntil = meteredUntil;
}
