import type { EntityManager } from '@mikro-orm/postgresql';
import type { SandboxStatus } from '../../domain/sandbox-state.ts';
import { Sandbox } from '../entities/sandbox.ts';
import { type Person, readPerson, selectPerson } from './people.ts';
import { readRow } from './read-row.ts';
import { allOf, containing, type Scope, type SqlCondition, withinScope } from './scope.ts';

/** A sandbox with what people want to read beside it. */
export interface SandboxView {
  sandbox: Sandbox;
  projectName: string;
  /** Whether its template is still there. */
  templateExists: boolean;
  owner: Person;
  /** The account's first root user; only `findSandboxView` reads it. */
  accountOwner: Person | null;
  /** Where the UDP ports of its host are reached. */
  hostAddress: string | null;
  /** What its host lets it send to the internet, and receive; only `findSandboxView` reads it. Null: not limited. */
  bandwidthMbps: number | null;
}

export interface SandboxFilter {
  statuses?: SandboxStatus[] | undefined;
  projectId?: string | undefined;
  ownerUserId?: string | undefined;
  /** Part of a name, a description or an id. */
  search?: string | undefined;
  /** Every pair of one of these must be there. */
  metadata?: Record<string, string>[] | undefined;
}

export const sandboxSortColumns = ['created_at', 'updated_at', 'started_at', 'name', 'status'] as const;

export interface SandboxListing {
  filter: SandboxFilter;
  sortBy: (typeof sandboxSortColumns)[number];
  sortOrder: 'asc' | 'desc';
  limit: number;
  offset: number;
}

/** The sandbox a caller may see, not deleted. */
export async function findSandboxView(em: EntityManager, scope: Scope, sandboxId: string): Promise<SandboxView | null> {
  const mine = withinScope(scope, 's');
  const [row] = (await em.execute(
    `select s.*, p.name as project_name, t.template_id is not null as template_exists,
            h.public_address as host_address, h.bandwidth_mbps, ${selectPerson('o', 'owner')},
            ${selectPerson('r', 'root')}
       from sandboxes s ${joins}
       left join lateral (select * from users where account_id = s.account_id and is_root_user
                           order by created_at, user_id limit 1) r on true
      where s.sandbox_id = ? and s.deleted_at is null and ${mine.sql}`,
    [sandboxId, ...mine.values],
  )) as ViewRow[];
  return row ? readView(em, row) : null;
}

/**
 * A page of the sandboxes a caller may see, and how many there are in all. The page is cut before anything is joined,
 * so that its cost does not grow with the account.
 */
export async function listSandboxViews(
  em: EntityManager,
  scope: Scope,
  listing: SandboxListing,
): Promise<{ views: SandboxView[]; total: number }> {
  const where = allOf([
    withinScope(scope, 's'),
    { sql: 's.deleted_at is null', values: [] },
    ...filters(listing.filter),
  ]);
  // The others are never null, and without `nulls last` their order is the one their index has.
  const nulls = listing.sortBy === 'started_at' ? 'nulls last' : '';
  const order = `s.${listing.sortBy} ${listing.sortOrder} ${nulls}, s.sandbox_id`;
  const [rows, [counted]] = await Promise.all([
    em.execute(
      `select s.*, p.name as project_name, t.template_id is not null as template_exists,
              h.public_address as host_address, ${selectPerson('o', 'owner')}
         from (select * from sandboxes s where ${where.sql} order by ${order} limit ? offset ?) s ${joins}
        order by ${order}`,
      [...where.values, listing.limit, listing.offset],
    ) as Promise<ViewRow[]>,
    em.execute(`select count(*)::int as total from sandboxes s where ${where.sql}`, where.values) as Promise<
      { total: number }[]
    >,
  ]);
  return { views: rows.map((row) => readView(em, row)), total: counted!.total };
}

export interface SandboxStats {
  total: number;
  running: number;
  terminated: number;
  failed: number;
  /** Hours of running, the present phases included, to four decimals. */
  uptimeHours: number;
}

/** Counts over the sandboxes a caller may see. */
export async function readSandboxStats(em: EntityManager, scope: Scope, now: Date): Promise<SandboxStats> {
  const mine = withinScope(scope, 's');
  const [row] = (await em.execute(
    `select count(*)::int as total,
            (count(*) filter (where status = 'running'))::int as running,
            (count(*) filter (where status = 'terminated'))::int as terminated,
            (count(*) filter (where status = 'failed'))::int as failed,
            round(coalesce(sum(running_ms + case when phase_kind = 'running'
              then greatest(0, extract(epoch from ?::timestamptz - phase_since) * 1000) else 0 end), 0) / 3600000, 4)
              ::float8 as uptime_hours
       from sandboxes s where s.deleted_at is null and ${mine.sql}`,
    [now.toISOString(), ...mine.values],
  )) as { total: number; running: number; terminated: number; failed: number; uptime_hours: number }[];
  return {
    total: row!.total,
    running: row!.running,
    terminated: row!.terminated,
    failed: row!.failed,
    uptimeHours: row!.uptime_hours,
  };
}

const joins = `join projects p on p.project_id = s.project_id
               join users o on o.user_id = s.owner_user_id
               left join templates t on t.template_id = s.template_id
               left join hosts h on h.host_id = s.host_id`;

function filters(filter: SandboxFilter): SqlCondition[] {
  const conditions: SqlCondition[] = [];
  if (filter.statuses) {
    conditions.push({ sql: `s.status in (${filter.statuses.map(() => '?').join(', ')})`, values: filter.statuses });
  }
  if (filter.projectId) conditions.push({ sql: 's.project_id = ?', values: [filter.projectId] });
  if (filter.ownerUserId) conditions.push({ sql: 's.owner_user_id = ?', values: [filter.ownerUserId] });
  if (filter.search) {
    const pattern = containing(filter.search);
    conditions.push({
      sql: '(s.name ilike ? or s.description ilike ? or s.sandbox_id ilike ?)',
      values: [pattern, pattern, pattern],
    });
  }
  if (filter.metadata) {
    const sql = filter.metadata.map(() => 's.metadata @> ?::jsonb').join(' or ');
    conditions.push({ sql: `(${sql})`, values: filter.metadata.map((pairs) => JSON.stringify(pairs)) });
  }
  return conditions;
}

type ViewRow = Record<string, unknown> & {
  project_name: string;
  template_exists: boolean;
  host_address: string | null;
  bandwidth_mbps?: number | null;
};

function readView(em: EntityManager, row: ViewRow): SandboxView {
  return {
    sandbox: readRow(em, Sandbox, row),
    projectName: row.project_name,
    templateExists: row.template_exists,
    owner: readPerson(row, 'owner')!,
    accountOwner: readPerson(row, 'root'),
    hostAddress: row.host_address,
    bandwidthMbps: row.bandwidth_mbps ?? null,
  };
}
