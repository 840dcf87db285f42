import type { EntityManager } from '@mikro-orm/postgresql';
import type { Amount } from '../../domain/billing/money.ts';
import type { SandboxId } from '../../domain/ids.ts';
import type { UsageType } from '../../domain/usage/types.ts';
import type { UsageWindow } from '../../domain/usage/window.ts';
import { type ListedTable, type Listing, type ListPage, readPage } from '../core/page.ts';
import { query } from '../core/query.ts';
import { type EntityRow, readRow } from '../core/read-row.ts';
import { joinConditions, type SqlCondition, withinScope } from '../core/scope.ts';
import { Sandbox } from '../sandboxes/sandbox.entity.ts';
import { type UsageOf, units, usageInSpan } from './usage-sums.ts';

/** A session is the life of a sandbox since it first ran. */
type SessionStatus = 'active' | 'completed' | 'failed';

export interface UsageSession {
  sandbox: Sandbox;
  status: SessionStatus;
  /** The cost so far, rounded to a millionth. */
  cost: number;
}

export interface SessionCounts {
  total: number;
  active: number;
  completed: number;
  failed: number;
  /** Seconds from the start to the end, or to now. Null: there is no session. */
  averageSeconds: number | null;
}

const listed: ListedTable = {
  table: 'sandboxes',
  alias: 's',
  key: ['sandbox_id'],
};

function ofCaller({ scope, projectId }: UsageOf): SqlCondition[] {
  const conditions: SqlCondition[] = [withinScope(scope, 's'), { sql: 's.started_at is not null', values: [] }];
  if (projectId) conditions.push({ sql: 's.project_id = ?', values: [projectId] });
  return conditions;
}

function toSessionStatus({ stoppedAt, lifecycleOutcome }: Sandbox): SessionStatus {
  if (!stoppedAt) return 'active';
  return lifecycleOutcome === 'failed' ? 'failed' : 'completed';
}

/** The sessions that overlap with the window. */
export async function countSessions(
  em: EntityManager,
  of: UsageOf,
  { start, end }: UsageWindow,
  now: Date,
): Promise<SessionCounts> {
  const where = joinConditions([
    ...ofCaller(of),
    {
      sql: 's.started_at < ?::timestamptz and coalesce(s.stopped_at, ?::timestamptz) >= ?::timestamptz',
      values: [end.toISOString(), now.toISOString(), start.toISOString()],
    },
  ]);
  const [row] = await query<{ total: number; active: number; failed: number; average: number | null }>(
    em.fork(),
    `select count(*)::int as total, (count(*) filter (where stopped_at is null))::int as active,
            (count(*) filter (where stopped_at is not null and lifecycle_outcome = 'failed'))::int as failed,
            round(avg(extract(epoch from greatest(coalesce(stopped_at, ?::timestamptz), started_at) - started_at)), 3)::float8 as average
       from sandboxes s where ${where.sql}`,
    [now.toISOString(), ...where.values],
  );
  const { total, active, failed, average } = row!;
  return { total, active, completed: total - active - failed, failed, averageSeconds: average };
}

/** The number of sessions that began on each day (UTC) of a window, without days without sessions. */
export async function sessionsByDay(
  em: EntityManager,
  of: UsageOf,
  window: UsageWindow,
): Promise<{ date: string; sessions: number }[]> {
  const where = joinConditions([...ofCaller(of), startedWithin(window)]);
  return await query<{ date: string; sessions: number }>(
    em.fork(),
    `select to_char(s.started_at at time zone 'UTC', 'YYYY-MM-DD') as date, count(*)::int as sessions
       from sandboxes s where ${where.sql} group by 1 order by 1`,
    where.values,
  );
}

function startedWithin({ start, end }: UsageWindow): SqlCondition {
  return {
    sql: 's.started_at >= ?::timestamptz and s.started_at < ?::timestamptz',
    values: [start.toISOString(), end.toISOString()],
  };
}

/** A page of the sessions that began in a window, newest first, including those of deleted sandboxes. */
export async function listSessions(
  em: EntityManager,
  of: UsageOf,
  window: UsageWindow,
  listing: Listing<string>,
  now: Date,
): Promise<ListPage & { sessions: UsageSession[] }> {
  const conditions = [...ofCaller(of), startedWithin(window)];
  const { rows, ...page } = await readPage<EntityRow<Sandbox>>(em.fork(), listed, conditions, {
    ...listing,
    sortBy: 'started_at',
  });
  const sandboxes = rows.map((row) => readRow(em, Sandbox, row));
  const costs = await readCosts(em, sandboxes, now);
  const sessions = sandboxes.map((sandbox) => ({
    sandbox,
    status: toSessionStatus(sandbox),
    cost: costs.get(sandbox.sandboxId) ?? 0,
  }));
  return { sessions, ...page };
}

/** The usage of sandboxes so far: what is recorded, and what living ones have used since. Values: the ids, the time, the ids. */
const usedBySandboxes = `(select resource_id, usage_type, unit_price, sum(amount) as amount from usage_events
              where resource_id = any(?::text[]) group by 1, 2, 3
             union all
             select s.sandbox_id, living.usage_type, living.unit_price, living.amount
               from sandboxes s
              cross join lateral (select s.metered_until as since, ?::timestamptz as until) span
              cross join lateral ${usageInSpan} living
              where s.sandbox_id = any(?::text[]) and s.phase_kind is not null and span.since < span.until) used
       join ${units} using (usage_type)`;

/** The cost of each of these sandboxes so far. */
async function readCosts(em: EntityManager, sandboxes: readonly Sandbox[], now: Date): Promise<Map<string, number>> {
  const ids = `{${sandboxes.map(({ sandboxId }) => sandboxId).join(',')}}`;
  const rows = await query<{ resource_id: string; cost: number }>(
    em.fork(),
    `select resource_id, round(sum(amount / per_unit * unit_price), 6)::float8 as cost
       from ${usedBySandboxes} group by 1`,
    [ids, now.toISOString(), ids],
  );
  return new Map(rows.map((row) => [row.resource_id, row.cost]));
}

/** The usage of a sandbox so far, by type, with its cost at the prices of its time. Both are rounded to a millionth. */
export async function readSandboxUsage(
  em: EntityManager,
  sandboxId: SandboxId,
  now: Date,
): Promise<{ usageType: UsageType; quantity: Amount; cost: Amount }[]> {
  const ids = `{${sandboxId}}`;
  const rows = await query<{ usage_type: UsageType; quantity: string; cost: string }>(
    em.fork(),
    `select usage_type, coalesce(round(sum(amount / per_unit), 6), 0)::text as quantity,
            coalesce(round(sum(amount / per_unit * unit_price), 6), 0)::text as cost
       from ${usedBySandboxes} group by 1`,
    [ids, now.toISOString(), ids],
  );
  return rows.map((row) => ({ usageType: row.usage_type, quantity: row.quantity, cost: row.cost }));
}
