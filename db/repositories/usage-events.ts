import type { EntityManager } from '@mikro-orm/postgresql';
import { meteredAfter, periodsUntil } from '../../domain/usage-periods.ts';
import type { Sandbox } from '../entities/sandbox.ts';
import { query } from '../query.ts';
import { priceOf } from '../usage-prices.ts';
import type { SqlCondition } from './scope.ts';

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
 * `before` the change. The same period is never recorded twice.
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
        select ?::text, ?::text, ?::text, ?::text, used.*
          from unnest(?::text[], ?::timestamptz[], ?::timestamptz[], ?::bigint[], ?::numeric[]) used${source}
        on conflict do nothing`,
      values: [
        ...[before.sandboxId, before.accountId, before.ownerUserId, before.projectId],
        ...[column(({ type }) => type), column(({ start }) => start.toISOString())],
        ...[column(({ end }) => end.toISOString()), column(({ amount }) => amount)],
        column(({ type }) => priceOf(type)),
      ],
    },
  ];
}

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
