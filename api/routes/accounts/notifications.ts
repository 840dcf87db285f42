import { z } from 'zod';
import type { Notification } from '../../../db/accounts/notification.entity.ts';
import {
  deleteAllNotifications,
  deleteNotifications,
  findNotification,
  markAllNotificationsRead,
  markNotifications,
  listNotifications as readNotifications,
} from '../../../db/accounts/notifications.ts';
import { notFound } from '../../../domain/errors.ts';
import { anyUser, requireScope } from '../../access.ts';
import type { Api, ApiDependencies } from '../../dependencies.ts';
import { counted, optionalQuery, queryFlag, time } from '../../schemas/fields.ts';
import { paginationSchema, pagingQuery, presentPagination, toListing } from '../../schemas/lists.ts';
import { envelope, failures, ofMutations, ofPaging, success } from '../../schemas/replies.ts';

const item = {
  id: z.string().meta({ examples: ['ntf-9ypjhn8d3fkq6w2mzx5v'] }),
  user_id: z.string(),
  title: z.string(),
  message: z.string(),
  type: z.string().describe('For programs, such as `sandbox_timeout`'),
  is_read: z.boolean(),
  category: z.string().describe('The kind of its subject, such as `sandbox`'),
  created_at: time(),
};

/** A notification in a list. */
const notificationItemSchema = z.object(item).meta({ id: 'NotificationItem' });

/** A notification read by its id. */
const notificationSchema = z
  .object({
    ...item,
    related_entity_type: z.string().nullable().describe('The kind of the related object'),
    related_entity_id: z.string().nullable(),
  })
  .meta({ id: 'Notification' });

/** Path of routes on one notification. */
const notificationPath = z.object({ notification_id: z.string().describe('`ntf-…`') });

function presentNotificationItem(notification: Notification): z.output<typeof notificationItemSchema> {
  return {
    id: notification.id,
    user_id: notification.userId,
    title: notification.title,
    message: notification.message,
    type: notification.type,
    is_read: notification.isRead,
    category: notification.category,
    created_at: notification.createdAt,
  };
}

function presentNotification(notification: Notification): z.output<typeof notificationSchema> {
  return {
    ...presentNotificationItem(notification),
    related_entity_type: notification.relatedEntityType ?? null,
    related_entity_id: notification.relatedEntityId ?? null,
  };
}

const query = z.object({
  ...pagingQuery,
  read: queryFlag().describe('`true`: only read ones; `false`: only unread ones'),
  type: optionalQuery(z.string().max(64)).describe('The exact type'),
});

/** `GET /v1/notifications`: the caller's own. Root users, too, only see their own. */
export function listNotifications(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'GET',
    url: '/v1/notifications',
    config: { access: anyUser('own') },
    schema: {
      operationId: 'listNotifications',
      tags: ['Notifications'],
      summary: 'List your notifications, newest first',
      description:
        'Root users, too, see only their own. `read` and `type` filter the list; `unread_count` counts all that are ' +
        'unread.',
      querystring: query,
      response: {
        200: envelope(
          z.object({
            notifications: z.array(notificationItemSchema),
            pagination: paginationSchema,
            unread_count: z.int().describe('Of all notifications, independent of the filters'),
          }),
          'A page of notifications',
        ),
        ...failures(ofPaging),
      },
    },
    handler: async (request) => {
      const { read, type } = request.query;
      const listing = toListing(deps, request, 50);
      const em = deps.orm.em.fork();
      const { notifications, unread, ...page } = await readNotifications(
        em,
        requireScope(request),
        { isRead: read, type },
        listing,
      );
      return success({
        notifications: notifications.map(presentNotificationItem),
        pagination: presentPagination(listing, page),
        unread_count: unread,
      });
    },
  });
}

/** `GET /v1/notifications/{notification_id}`. Reading it does not mark it as read. */
export function getNotification(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'GET',
    url: '/v1/notifications/:notification_id',
    config: { access: anyUser('own') },
    schema: {
      operationId: 'getNotification',
      tags: ['Notifications'],
      summary: 'Read a notification',
      description: 'Reading it does not mark it as read.',
      params: notificationPath,
      response: { 200: envelope(notificationSchema, 'The notification'), ...failures('not_found') },
    },
    handler: async (request) => {
      const { notification_id: id } = request.params;
      return success(presentNotification(await findNotification(deps.orm.em.fork(), requireScope(request), id)));
    },
  });
}

/** `PATCH /v1/notifications/{notification_id}/read`. */
export const markNotificationRead = markAs('read', 'markNotificationRead');
/** `PATCH /v1/notifications/{notification_id}/unread`. */
export const markNotificationUnread = markAs('unread', 'markNotificationUnread');

function markAs(state: 'read' | 'unread', operationId: string) {
  const isRead = state === 'read';
  return (api: Api, deps: ApiDependencies): void => {
    api.route({
      method: 'PATCH',
      url: `/v1/notifications/:notification_id/${state}`,
      config: { access: anyUser('own') },
      schema: {
        operationId,
        tags: ['Notifications'],
        summary: `Mark a notification as ${state}`,
        description: 'If it already has this state, the reply is the same.',
        params: notificationPath,
        response: {
          200: envelope(z.object({ notification_id: z.string(), is_read: z.literal(isRead) }), `It is ${state}`),
          ...failures(ofMutations, 'not_found'),
        },
      },
      handler: async (request) => {
        const { notification_id: id } = request.params;
        const marked = await markNotifications(deps.orm.em.fork(), requireScope(request), [id], isRead);
        if (marked.length === 0) throw notFound('Notification');
        return success({ notification_id: id, is_read: isRead }, `The notification is marked as ${state}`);
      },
    });
  };
}

/** `PATCH /v1/notifications/read-all`. */
export function markAllRead(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'PATCH',
    url: '/v1/notifications/read-all',
    config: { access: anyUser('own') },
    schema: {
      operationId: 'markAllNotificationsRead',
      tags: ['Notifications'],
      summary: 'Mark all your notifications as read',
      description: 'The count says how many were unread.',
      response: {
        200: envelope(
          z.object({
            marked_count: z.int().describe('The number of notifications that were unread'),
            is_read: z.literal(true),
          }),
          'All are read',
        ),
        ...failures(ofMutations),
      },
    },
    handler: async (request) => {
      const count = await markAllNotificationsRead(deps.orm.em.fork(), requireScope(request));
      return success({ marked_count: count, is_read: true as const }, `Notifications marked as read: ${count}`);
    },
  });
}

/** The same limit as for a page of the list. */
const maxIds = 100;

/** The notifications that a bulk route works on. Ids of other users' or unknown notifications are ignored. */
const bulkBody = z.object({
  notification_ids: counted(maxIds, 'ids', z.array(z.string().min(1).max(64)).min(1).max(maxIds)).describe(
    `1 to ${maxIds} ids`,
  ),
});

/** `PATCH /v1/notifications/bulk-read`. */
export const bulkMarkNotificationsRead = bulkMarkAs('read', 'bulkMarkNotificationsRead');
/** `PATCH /v1/notifications/bulk-unread`. */
export const bulkMarkNotificationsUnread = bulkMarkAs('unread', 'bulkMarkNotificationsUnread');

function bulkMarkAs(state: 'read' | 'unread', operationId: string) {
  const isRead = state === 'read';
  return (api: Api, deps: ApiDependencies): void => {
    api.route({
      method: 'PATCH',
      url: `/v1/notifications/bulk-${state}`,
      config: { access: anyUser('own') },
      schema: {
        operationId,
        tags: ['Notifications'],
        summary: `Mark several notifications as ${state}`,
        description: 'Unknown ids and ids of other users are ignored; the count says how many were marked.',
        body: bulkBody,
        response: {
          200: envelope(
            z.object({
              notification_ids: z.array(z.string()).describe('The ids of the marked notifications'),
              marked_count: z.int(),
              is_read: z.literal(isRead),
            }),
            `They are ${state}`,
          ),
          ...failures(ofMutations),
        },
      },
      handler: async (request) => {
        const { notification_ids: ids } = request.body;
        const marked = await markNotifications(deps.orm.em.fork(), requireScope(request), ids, isRead);
        return success(
          { notification_ids: marked, marked_count: marked.length, is_read: isRead },
          `Notifications marked as ${state}: ${marked.length}`,
        );
      },
    });
  };
}

/** `DELETE /v1/notifications/{notification_id}`. */
export function deleteNotification(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'DELETE',
    url: '/v1/notifications/:notification_id',
    config: { access: anyUser('own') },
    schema: {
      operationId: 'deleteNotification',
      tags: ['Notifications'],
      summary: 'Delete a notification',
      description: 'A deleted notification cannot be restored.',
      params: notificationPath,
      response: {
        200: envelope(z.object({ notification_id: z.string(), deleted: z.literal(true) }), 'It is deleted'),
        ...failures(ofMutations, 'not_found'),
      },
    },
    handler: async (request) => {
      const { notification_id: id } = request.params;
      const deleted = await deleteNotifications(deps.orm.em.fork(), requireScope(request), [id]);
      if (deleted.length === 0) throw notFound('Notification');
      return success({ notification_id: id, deleted: true as const }, 'The notification is deleted');
    },
  });
}

/** `DELETE /v1/notifications`. */
export function deleteAll(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'DELETE',
    url: '/v1/notifications',
    config: { access: anyUser('own') },
    schema: {
      operationId: 'deleteAllNotifications',
      tags: ['Notifications'],
      summary: 'Delete all your notifications',
      description: 'Deletes read and unread ones of the calling user.',
      response: {
        200: envelope(z.object({ deleted_count: z.int() }), 'All are deleted'),
        ...failures(ofMutations),
      },
    },
    handler: async (request) => {
      const count = await deleteAllNotifications(deps.orm.em.fork(), requireScope(request));
      return success({ deleted_count: count }, `Notifications deleted: ${count}`);
    },
  });
}

/** `POST /v1/notifications/bulk-delete`. */
export function bulkDeleteNotifications(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'POST',
    url: '/v1/notifications/bulk-delete',
    config: { access: anyUser('own') },
    schema: {
      operationId: 'bulkDeleteNotifications',
      tags: ['Notifications'],
      summary: 'Delete several notifications',
      description: 'Unknown ids and ids of other users are ignored; the count says how many were deleted.',
      body: bulkBody,
      response: {
        200: envelope(
          z.object({
            notification_ids: z.array(z.string()).describe('The ids of the deleted notifications'),
            deleted_count: z.int(),
          }),
          'They are deleted',
        ),
        ...failures(ofMutations),
      },
    },
    handler: async (request) => {
      const { notification_ids: ids } = request.body;
      const deleted = await deleteNotifications(deps.orm.em.fork(), requireScope(request), ids);
      return success(
        { notification_ids: deleted, deleted_count: deleted.length },
        `Notifications deleted: ${deleted.length}`,
      );
    },
  });
}
