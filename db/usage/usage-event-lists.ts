import type { EntityManager } from '@mikro-orm/postgresql';
import type { AccountId, ProjectId, UserId } from '../../domain/ids.ts';
import { type ResourceType, type UsageType, usageTypeNames, usageTypes } from '../../domain/usage/types.ts';
import { splitWindow, type UsageWindow } from '../../domain/usage/window.ts';
import { endPage, type Listing, type ListPage, type OrderedTable, startPage } from '../core/page.ts';
import { query } from '../core/query.ts';
import { joinConditions, type SqlCondition, withinScope } from '../core/scope.ts';
import { quantity, type UsageOf, units } from './usage-sums.ts';

/** An event in the form for people. Its numbers are made from exact decimals. */
export interface UsageEvent {
  eventId: string;
  resourceType: ResourceType;
  resourceId: string;
  accountId: AccountId;
  userId: UserId;
  projectId: ProjectId | null;
  usageType: UsageType;
  quantity: number;
  unitPrice: number;
  cost: number;
  periodStart: Date;
  periodEnd: Date;
  createdAt: Date;
  cpuCount: number | null;
  memoryMb: number | null;
  metadata: Record<string, string>;
}

interface UsageEventFilter {
  resourceType?: ResourceType | undefined;
  usageType?: UsageType | undefined;
}

/**
 * A page of events whose period ended in a window, after its start and not after its end, newest first. Their number is
 * computed from the sums of hours and days, so a long list is counted as fast as a short one.
 */
export async function listUsageEvents(
  em: EntityManager,
  of: UsageOf,
  filter: UsageEventFilter,
  window: UsageWindow,
  listing: Pick<Listing, 'limit' | 'offset' | 'after'>,
): Promise<ListPage & { events: UsageEvent[] }> {
  const types = usageTypeNames.filter(
    (type) =>
      (!filter.usageType || type === filter.usageType) &&
      (!filter.resourceType || usageTypes[type].resource === filter.resourceType),
  );
  const whose = (alias: string): SqlCondition => {
    const conditions: SqlCondition[] = [
      withinScope(of.scope, alias, 'user_id'),
      { sql: `${alias}.usage_type = any(?::text[])`, values: [`{${types.join(',')}}`] },
    ];
    if (of.projectId) conditions.push({ sql: `${alias}.project_id = ?`, values: [of.projectId] });
    return joinConditions(conditions);
  };
  const [{ rows, next }, total] = await Promise.all([
    readEvents(em, whose('e'), window, { ...listing, sortBy: 'period_end', sortOrder: 'desc' }),
    countEvents(em, whose, window),
  ]);
  return { events: rows.map(present), next, total };
}

const endedWithin = ({ start, end }: UsageWindow): SqlCondition => ({
  // The bounds of `period_start` let Postgres skip partitions.
  sql: `e.period_end > ?::timestamptz and e.period_end <= ?::timestamptz
        and e.period_start >= ?::timestamptz - interval '1 hour' and e.period_start < ?::timestamptz`,
  values: [start.toISOString(), end.toISOString(), start.toISOString(), end.toISOString()],
});

const listed: OrderedTable = { alias: 'e', key: ['resource_id', 'usage_type', 'period_start'] };

async function readEvents(em: EntityManager, whose: SqlCondition, window: UsageWindow, listing: Listing<'period_end'>) {
  const { order, limited, following } = startPage(listed, listing);
  const where = joinConditions([whose, endedWithin(window), ...following]);
  const rows = await query<EventRow>(
    em.fork(),
    `select e.resource_id, e.account_id, e.user_id, e.project_id, e.usage_type, e.period_start, e.period_end, e.created_at,
            md5(e.resource_id || ' ' || e.usage_type || ' ' || extract(epoch from e.period_start)) as hash,
            ${quantity}::float8 as quantity, trim_scale(${quantity} * e.unit_price)::float8 as cost, e.unit_price::float8 as price,
            r.cpu_count, r.memory_mb, coalesce(r.metadata, '{}') as metadata
       from (select * from usage_events e where ${where.sql} ${order} ${limited.sql}) e
       join ${units} using (usage_type)
       left join usage_resources r on r.resource_id = e.resource_id ${order}`,
    [...where.values, ...limited.values],
  );
  return endPage(listed, listing, rows);
}

interface EventRow {
  hash: string;
  resource_id: string;
  account_id: AccountId;
  user_id: UserId;
  project_id: string;
  usage_type: UsageType;
  quantity: number;
  price: number;
  cost: number;
  period_start: string;
  period_end: string;
  created_at: string;
  cpu_count: number | null;
  memory_mb: number | null;
  metadata: Record<string, string>;
}

function present(row: EventRow): UsageEvent {
  return {
    // Derived from the unique fields of an event.
    eventId: `use-${row.hash}`,
    resourceType: usageTypes[row.usage_type].resource,
    resourceId: row.resource_id,
    accountId: row.account_id,
    userId: row.user_id,
    projectId: row.project_id === '' ? null : (row.project_id as ProjectId),
    usageType: row.usage_type,
    quantity: row.quantity,
    unitPrice: row.price,
    cost: row.cost,
    periodStart: new Date(row.period_start),
    periodEnd: new Date(row.period_end),
    createdAt: new Date(row.created_at),
    cpuCount: row.cpu_count,
    memoryMb: row.memory_mb,
    metadata: row.metadata,
  };
}

/** An event that ends with an hour belongs to that hour, both in the sums and here. */
async function countEvents(
  em: EntityManager,
  whose: (alias: string) => SqlCondition,
  window: UsageWindow,
): Promise<number> {
  const { days, hours, edges } = splitWindow(window);
  const iso = (ms: number) => new Date(ms).toISOString();
  const arms: SqlCondition[] = [];
  for (const [table, spans] of [
    ['usage_days', days],
    ['usage_hours', hours],
  ] as const) {
    for (const { startMs, endMs } of spans) {
      const mine = whose('u');
      arms.push({
        sql: `select coalesce(sum(events), 0) as count from ${table} u
               where ${mine.sql} and bucket >= ?::timestamptz and bucket < ?::timestamptz`,
        values: [...mine.values, iso(startMs), iso(endMs)],
      });
    }
  }
  for (const { startMs, endMs } of [...days, ...hours]) {
    const mine = whose('p');
    arms.push({
      sql: `select count(*) from usage_pending p
             where ${mine.sql} and period_start >= ?::timestamptz and period_start < ?::timestamptz`,
      values: [...mine.values, iso(startMs), iso(endMs)],
    });
  }
  for (const { startMs, endMs } of edges) {
    const where = joinConditions([whose('e'), endedWithin({ start: new Date(startMs), end: new Date(endMs) })]);
    arms.push({ sql: `select count(*) from usage_events e where ${where.sql}`, values: where.values });
  }
  if (arms.length === 0) return 0;
  const [row] = await query<{ total: number }>(
    em.fork(),
    `select coalesce(sum(count), 0)::float8 as total from (${arms.map(({ sql }) => `(${sql})`).join(' union all ')}) counts`,
    arms.flatMap(({ values }) => values),
  );
  return row!.total;
}
