import type { EntityManager } from '@mikro-orm/postgresql';
import { notFound } from '../../domain/errors.ts';
import { newId } from '../core/new-id.ts';
import { type ListedTable, type Listing, type ListPage, readPage } from '../core/page.ts';
import { query } from '../core/query.ts';
import { type EntityRow, readRow } from '../core/read-row.ts';
import { entitiesWithin, type Scope, type SqlCondition, withinScope } from '../core/scope.ts';
import { Notification } from './notification.entity.ts';

/** A message to one user inside the product. Its texts are for people, its type is for programs. */
export type NewNotification = Pick<
  Notification,
  'accountId' | 'userId' | 'title' | 'message' | 'type' | 'category' | 'relatedEntityType' | 'relatedEntityId'
>;

/** Adds a notification to a transaction, so that it exists exactly if the change is committed. */
export function addNotification(tx: EntityManager, notification: NewNotification): void {
  tx.create(Notification, { id: newId('notification'), ...notification }, { persist: true });
}

export interface NotificationFilter {
  isRead?: boolean | undefined;
  /** The exact type. */
  type?: string | undefined;
}

const listed: ListedTable = { table: 'notifications', alias: 'n', key: ['id'] };

/** A page of a user's notifications, and the number of all unread ones, regardless of the filter. */
export async function listNotifications(
  em: EntityManager,
  scope: Scope,
  filter: NotificationFilter,
  listing: Listing,
): Promise<ListPage & { notifications: Notification[]; unread: number }> {
  const conditions: SqlCondition[] = [withinScope(scope, 'n', 'user_id')];
  if (filter.isRead !== undefined) conditions.push({ sql: 'n.is_read = ?', values: [filter.isRead] });
  if (filter.type) conditions.push({ sql: 'n.type = ?', values: [filter.type] });
  const [{ rows, ...page }, unread] = await Promise.all([
    readPage<EntityRow<Notification>>(em, listed, conditions, listing),
    em.fork().count(Notification, { ...entitiesWithin(scope, 'userId'), isRead: false }),
  ]);
  return { notifications: rows.map((row) => readRow(em, Notification, row)), ...page, unread };
}

/** @throws {AppError} `not_found` */
export async function findNotification(em: EntityManager, scope: Scope, id: string): Promise<Notification> {
  const notification = await em.findOne(Notification, { id, ...entitiesWithin(scope, 'userId') });
  if (!notification) throw notFound('Notification');
  return notification;
}

/**
 * Marks notifications as read or unread.
 * @returns the ids of the existing ones, in the given order
 */
export async function markNotifications(
  em: EntityManager,
  scope: Scope,
  ids: readonly string[],
  isRead: boolean,
): Promise<string[]> {
  const within = withinScope(scope, 'n', 'user_id');
  const rows = await query<{ id: string }>(
    em,
    `update notifications n set is_read = ? where n.id in (select jsonb_array_elements_text(?::jsonb)) and ${within.sql}
     returning n.id`,
    [isRead, JSON.stringify(ids), ...within.values],
  );
  return inOrder(ids, rows);
}

/** Marks all unread notifications as read. @returns their number */
export async function markAllNotificationsRead(em: EntityManager, scope: Scope): Promise<number> {
  return em.nativeUpdate(Notification, { ...entitiesWithin(scope, 'userId'), isRead: false }, { isRead: true });
}

/** @returns the ids of the existing ones, in the given order */
export async function deleteNotifications(em: EntityManager, scope: Scope, ids: readonly string[]): Promise<string[]> {
  const within = withinScope(scope, 'n', 'user_id');
  const rows = await query<{ id: string }>(
    em,
    `delete from notifications n where n.id in (select jsonb_array_elements_text(?::jsonb)) and ${within.sql}
     returning n.id`,
    [JSON.stringify(ids), ...within.values],
  );
  return inOrder(ids, rows);
}

/** @returns their number */
export async function deleteAllNotifications(em: EntityManager, scope: Scope): Promise<number> {
  return em.nativeDelete(Notification, entitiesWithin(scope, 'userId'));
}

function inOrder(ids: readonly string[], rows: readonly { id: string }[]): string[] {
  const found = new Set(rows.map(({ id }) => id));
  return [...new Set(ids)].filter((id) => found.has(id));
}
