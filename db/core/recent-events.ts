import type { EntityManager } from '@mikro-orm/postgresql';
import type { AccountId, UserId } from '../../domain/ids.ts';
import { query } from './query.ts';
import { type Scope, withinScope } from './scope.ts';

/**
 * For how long an event counts as recent. Its time is that of the process that recorded it, and it appears when its
 * transaction commits, so a reader of new events reads each one several times.
 */
export const recentSeconds = 10;
/** The maximum number of recent events that are read of one account, newest first. */
export const maxRecentEvents = 500;

/** An event as its readers see it while they watch. */
export interface RecentEvent {
  eventId: string;
  accountId: AccountId;
  /** Null: the event is only for the account's root users. */
  userId: UserId | null;
  objectId: string;
  type: string;
  data: Record<string, unknown>;
  createdAt: Date;
}

interface RecentRow {
  event_id: string;
  account_id: AccountId;
  user_id: UserId | null;
  object_id: string;
  type: string;
  data: Record<string, unknown>;
  created_at: string;
}

/** The recent events of some accounts. The statement reads ranges of an index: that of the time, or those of the accounts. */
export async function readRecentEvents(em: EntityManager, accountIds: readonly AccountId[]): Promise<RecentEvent[]> {
  const rows = await query<RecentRow>(
    em.fork(),
    `select event_id, account_id, user_id, object_id, type, data, created_at
       from (select *, row_number() over (partition by account_id order by created_at desc) as place from events
              where account_id = any(?::text[]) and created_at > now() - interval '${recentSeconds} seconds') e
      where place <= ${maxRecentEvents}`,
    [`{${accountIds.join(',')}}`],
  );
  return rows.map(toEvent);
}

/** The recent events of all accounts. */
export async function readRecentEventsOfAll(em: EntityManager): Promise<RecentEvent[]> {
  const rows = await query<RecentRow>(
    em.fork(),
    `select event_id, account_id, user_id, object_id, type, data, created_at from events
      where created_at > now() - interval '${recentSeconds} seconds'
      order by created_at desc limit ${maxRecentEvents}`,
  );
  return rows.map(toEvent);
}

/** For how long an event counts as new, so that few rows are read for a user with few events in a large account. */
const newestDays = 1;

/** The newest events within a scope, newest first. */
export async function readNewestEvents(em: EntityManager, scope: Scope, limit: number): Promise<RecentEvent[]> {
  const { sql, values } = withinScope(scope, 'e', 'user_id');
  const rows = await query<RecentRow>(
    em.fork(),
    `select event_id, account_id, user_id, object_id, type, data, created_at from events e
      where ${sql} and created_at > now() - interval '${newestDays} day'
      order by created_at desc, sequence desc limit ?`,
    [...values, limit],
  );
  return rows.map(toEvent);
}

function toEvent(row: RecentRow): RecentEvent {
  return {
    eventId: row.event_id,
    accountId: row.account_id,
    userId: row.user_id,
    objectId: row.object_id,
    type: row.type,
    data: row.data,
    createdAt: new Date(row.created_at),
  };
}
