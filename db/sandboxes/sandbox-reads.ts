import type { EntityManager } from '@mikro-orm/postgresql';
import type { ProjectId, SandboxId, UserId } from '../../domain/ids.ts';
import type { SandboxStatus } from '../../domain/sandboxes/state.ts';
import { joinAccountRoot, type Person, type PersonRow, readPerson, selectPerson } from '../accounts/people.ts';
import { containing, type ListedTable, type Listing, type ListPage, readOne, readPage } from '../core/page.ts';
import { query } from '../core/query.ts';
import { type EntityRow, readRow } from '../core/read-row.ts';
import { type Scope, type SqlCondition, withinScope } from '../core/scope.ts';
import { Sandbox } from './sandbox.entity.ts';

/** A sandbox with the additional facts that replies show. */
export interface SandboxView {
  sandbox: Sandbox;
  projectName: string;
  /** Whether its template still exists. */
  templateExists: boolean;
  owner: Person;
  /** The account's first root user. Only `findSandboxView` reads it. */
  accountOwner: Person | null;
  /** The address of its host's UDP ports. */
  hostAddress: string | null;
  /** The bandwidth to the internet on its host, in each direction. Only `findSandboxView` reads it. Null: unlimited. */
  bandwidthMbps: number | null;
}

export interface SandboxFilter {
  statuses?: readonly SandboxStatus[] | undefined;
  projectId?: ProjectId | undefined;
  ownerUserId?: UserId | undefined;
  /** A part of a name, a description or an id. */
  search?: string | undefined;
  /** All pairs of at least one of these records must be present. */
  metadata?: Record<string, string>[] | undefined;
  /** The id of the template, or its name when the sandbox was made. */
  template?: string | undefined;
  /** Started at this time or later. A sandbox that has not started yet counts from its creation. */
  startedAfter?: Date | undefined;
}

export const sandboxSortColumns = ['created_at', 'updated_at', 'started_at', 'name', 'status'] as const;

const listed = {
  table: 'sandboxes',
  alias: 's',
  key: ['sandbox_id'],
  beside: `p.name as project_name, t.template_id is not null as template_exists,
           h.public_address as host_address, ${selectPerson('o', 'owner')}`,
  joins: `join projects p on p.project_id = s.project_id
          join users o on o.user_id = s.owner_user_id
          left join templates t on t.template_id = s.template_id
          left join hosts h on h.host_id = s.host_id`,
  nullable: ['started_at'],
} satisfies ListedTable;

/** The sandbox with the host's bandwidth and the account's first root user. */
const detailed: ListedTable = {
  ...listed,
  beside: `${listed.beside}, h.bandwidth_mbps, ${selectPerson('r', 'root')}`,
  joins: `${listed.joins} ${joinAccountRoot('s', 'r')}`,
};

/** The sandbox, if the caller may see it and it is not deleted. */
export async function findSandboxView(
  em: EntityManager,
  scope: Scope,
  sandboxId: SandboxId,
): Promise<SandboxView | null> {
  const named = { sql: 's.sandbox_id = ? and s.deleted_at is null', values: [sandboxId] };
  const row = await readOne<DetailedRow>(em, detailed, [named, withinScope(scope, 's')]);
  return row && { ...readView(em, row), accountOwner: readPerson(row, 'root'), bandwidthMbps: row.bandwidth_mbps };
}

/** A page of the sandboxes that a caller may see, without deleted ones. */
export async function listSandboxViews(
  em: EntityManager,
  scope: Scope,
  filter: SandboxFilter,
  listing: Listing<(typeof sandboxSortColumns)[number]>,
): Promise<ListPage & { views: SandboxView[] }> {
  const conditions: SqlCondition[] = [
    withinScope(scope, 's'),
    { sql: 's.deleted_at is null', values: [] },
    ...filters(filter),
  ];
  const { rows, ...page } = await readPage<ListedRow>(em, listed, conditions, listing);
  return { views: rows.map((row) => readView(em, row)), ...page };
}

export interface SandboxStats {
  total: number;
  running: number;
  terminated: number;
  failed: number;
  /** Hours of running, including the current phases, with four decimals. */
  uptimeHours: number;
}

/** Counts of the sandboxes that a caller may see. */
export async function readSandboxStats(em: EntityManager, scope: Scope, now: Date): Promise<SandboxStats> {
  const mine = withinScope(scope, 's');
  const [row] = await query<{
    total: number;
    running: number;
    terminated: number;
    failed: number;
    uptime_hours: number;
  }>(
    em,
    `select count(*)::int as total,
            (count(*) filter (where status = 'running'))::int as running,
            (count(*) filter (where status = 'terminated'))::int as terminated,
            (count(*) filter (where status = 'failed'))::int as failed,
            round(coalesce(sum(running_ms + case when phase_kind = 'running'
              then greatest(0, extract(epoch from ?::timestamptz - phase_since) * 1000) else 0 end), 0) / 3600000, 4)
              ::float8 as uptime_hours
       from sandboxes s where s.deleted_at is null and ${mine.sql}`,
    [now.toISOString(), ...mine.values],
  );
  return {
    total: row!.total,
    running: row!.running,
    terminated: row!.terminated,
    failed: row!.failed,
    uptimeHours: row!.uptime_hours,
  };
}

function filters(filter: SandboxFilter): SqlCondition[] {
  const conditions: SqlCondition[] = [];
  if (filter.statuses) {
    conditions.push({
      sql: `s.status in (${filter.statuses.map(() => '?').join(', ')})`,
      values: [...filter.statuses],
    });
  }
  if (filter.projectId) conditions.push({ sql: 's.project_id = ?', values: [filter.projectId] });
  if (filter.ownerUserId) conditions.push({ sql: 's.owner_user_id = ?', values: [filter.ownerUserId] });
  if (filter.search) {
    conditions.push(containing(['s.name', 's.description', 's.sandbox_id'], filter.search));
  }
  if (filter.metadata) {
    const sql = filter.metadata.map(() => 's.metadata @> ?::jsonb').join(' or ');
    conditions.push({ sql: `(${sql})`, values: filter.metadata.map((pairs) => JSON.stringify(pairs)) });
  }
  if (filter.template) {
    conditions.push({ sql: '(s.template_id = ? or s.template_name = ?)', values: [filter.template, filter.template] });
  }
  if (filter.startedAfter) {
    conditions.push({
      sql: 'coalesce(s.started_at, s.created_at) >= ?::timestamptz',
      values: [filter.startedAfter.toISOString()],
    });
  }
  return conditions;
}

type ListedRow = EntityRow<Sandbox> &
  PersonRow<'owner'> & { project_name: string; template_exists: boolean; host_address: string | null };

type DetailedRow = ListedRow & PersonRow<'root'> & { bandwidth_mbps: number | null };

function readView(em: EntityManager, row: ListedRow): SandboxView {
  return {
    sandbox: readRow(em, Sandbox, row),
    projectName: row.project_name,
    templateExists: row.template_exists,
    owner: readPerson(row, 'owner')!,
    accountOwner: null,
    hostAddress: row.host_address,
    bandwidthMbps: null,
  };
}
