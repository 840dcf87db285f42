import { z } from 'zod';
import { listNotifications as readNotifications } from '../../../../db/accounts/notifications.ts';
import { anyUser, scopeOf } from '../../../access.ts';
import type { Api, ApiDependencies } from '../../../dependencies.ts';
import { optionalQuery, queryFlag } from '../../../schemas/fields.ts';
import { listingOf, paginationOf, paginationSchema, pagingQuery } from '../../../schemas/lists.ts';
import { envelope, failures, ofPaging, success } from '../../../schemas/replies.ts';
import { notificationItemSchema, presentNotificationItem } from './notification-schema.ts';

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
      const listing = listingOf(request.query, 50);
      const em = deps.orm.em.fork();
      const { notifications, total, unread } = await readNotifications(
        em,
        scopeOf(request),
        { isRead: read, type },
        listing,
      );
      return success({
        notifications: notifications.map(presentNotificationItem),
        pagination: paginationOf(listing, total),
        unread_count: unread,
      });
    },
  });
}
