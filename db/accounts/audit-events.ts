import { AsyncLocalStorage } from 'node:async_hooks';
import type { EntityManager } from '@mikro-orm/postgresql';
import type { AccountId, SessionId, UserId } from '../../domain/ids.ts';
import { newId } from '../core/new-id.ts';
import { containing, type ListedTable, type Listing, type ListPage, readPage } from '../core/page.ts';
import { query } from '../core/query.ts';
import { type Scope, type SqlCondition, withinScope } from '../core/scope.ts';

/** The actor of a change, and the request or command. */
export interface AuditedRequest {
  /** The account of the object. Null: there is no caller, or the request concerns no account. */
  accountId: AccountId | null;
  userId: UserId | null;
  keyId: string | null;
  sessionId: SessionId | null;
  /** The client's address. For an operator's command, the user and the machine. */
  address: string;
  requestId: string;
  /** The operation's id in the OpenAPI document, or the name of the command. */
  action: string;
  /** The change has already recorded itself. */
  isRecorded: boolean;
}

/** The request or command that is being served. Unset when the platform acts on its own. */
export const auditedRequest = new AsyncLocalStorage<AuditedRequest>();

/** Settings of an object. They are never secret. */
export type AuditedFields = Record<string, string | number | boolean | null>;

/** The fields of an event in addition to its actor. */
export interface AuditedChange {
  /** The account of the object. Null: the change concerns the whole platform. */
  accountId: AccountId | null;
  objectId: string | null;
  before: AuditedFields | null;
  after: AuditedFields | null;
  /** The user whose identity this request has proven, if the request had no caller before. */
  provenUserId?: string;
  /** Replaces the operation, if several operations make the same change. */
  action?: string;
}

/**
 * Records a change in the transaction of `em` that makes it, with the changed fields. Does nothing if no request is
 * being served.
 */
export async function recordAudit(em: EntityManager, change: AuditedChange): Promise<void> {
  const request = auditedRequest.getStore();
  if (!request) return;
  await insertAuditEvent(em, request, onlyChanged(change));
  request.isRecorded = true;
}

/** Removes unchanged fields. */
function onlyChanged(change: AuditedChange): AuditedChange {
  const { before, after } = change;
  if (!before || !after) return change;
  const changed = Object.keys(after).filter((name) => before[name] !== after[name]);
  const only = (fields: AuditedFields) => Object.fromEntries(changed.map((name) => [name, fields[name] ?? null]));
  return { ...change, before: only(before), after: only(after) };
}

export async function insertAuditEvent(
  em: EntityManager,
  request: AuditedRequest,
  { accountId, objectId, before, after, provenUserId, action }: AuditedChange,
): Promise<void> {
  await query(
    em,
    `insert into audit_events (event_id, account_id, actor_user_id, actor_key_id, actor_session_id, address, request_id,
       action, object_id, before, after) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?::jsonb, ?::jsonb)`,
    [
      ...[newId('auditEvent'), accountId, provenUserId ?? request.userId, request.keyId, request.sessionId],
      ...[request.address, request.requestId, action ?? request.action, objectId],
      ...[before && JSON.stringify(before), after && JSON.stringify(after)],
    ],
  );
}

export interface AuditEvent {
  eventId: string;
  accountId: AccountId | null;
  actorUserId: string | null;
  actorKeyId: string | null;
  actorSessionId: string | null;
  address: string;
  requestId: string;
  action: string;
  objectId: string | null;
  before: Record<string, unknown> | null;
  after: Record<string, unknown> | null;
  createdAt: Date;
}

export interface AuditFilter {
  from?: Date | undefined;
  to?: Date | undefined;
  actorUserId?: UserId | undefined;
  objectId?: string | undefined;
  /** A part of the action's name. */
  action?: string | undefined;
}

const listed: ListedTable = {
  table: 'audit_events',
  alias: 'e',
  key: ['event_id'],
};

export async function listAuditEvents(
  em: EntityManager,
  scope: Scope,
  filter: AuditFilter,
  listing: Listing,
): Promise<ListPage & { events: AuditEvent[] }> {
  const conditions: SqlCondition[] = [withinScope(scope, 'e', 'actor_user_id')];
  if (filter.from) conditions.push({ sql: 'e.created_at >= ?', values: [filter.from] });
  if (filter.to) conditions.push({ sql: 'e.created_at <= ?', values: [filter.to] });
  if (filter.actorUserId) conditions.push({ sql: 'e.actor_user_id = ?', values: [filter.actorUserId] });
  if (filter.objectId) conditions.push({ sql: 'e.object_id = ?', values: [filter.objectId] });
  if (filter.action) conditions.push(containing(['e.action'], filter.action));
  const { rows, ...page } = await readPage<AuditRow>(em, listed, conditions, listing);
  return { events: rows.map(readEvent), ...page };
}

interface AuditRow {
  event_id: string;
  account_id: AccountId | null;
  actor_user_id: string | null;
  actor_key_id: string | null;
  actor_session_id: string | null;
  address: string;
  request_id: string;
  action: string;
  object_id: string | null;
  before: AuditEvent['before'];
  after: AuditEvent['after'];
  created_at: string;
}

function readEvent(row: AuditRow): AuditEvent {
  return {
    eventId: row.event_id,
    accountId: row.account_id,
    actorUserId: row.actor_user_id,
    actorKeyId: row.actor_key_id,
    actorSessionId: row.actor_session_id,
    address: row.address,
    requestId: row.request_id,
    action: row.action,
    objectId: row.object_id,
    before: row.before,
    after: row.after,
    createdAt: new Date(row.created_at),
  };
}
