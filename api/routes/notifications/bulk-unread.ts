import { z } from 'zod';
import { markNotifications } from '../../../db/repositories/notifications.ts';
import { anyUser, scopeOf } from '../../access.ts';
import type { Api, ApiDependencies } from '../../dependencies.ts';
import { envelope, success } from '../../schemas/envelope.ts';
import { failures, ofMutations } from '../../schemas/failures.ts';
import { bulkBody } from './bulk-body.ts';

/** `PATCH /v1/notifications/bulk-unread`. */
export function bulkMarkNotificationsUnread(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'PATCH',
    url: '/v1/notifications/bulk-unread',
    config: { access: anyUser('own') },
    schema: {
      operationId: 'bulkMarkNotificationsUnread',
      tags: ['Notifications'],
      summary: 'Mark several notifications as unread',
      body: bulkBody,
      response: {
        200: envelope(
          z.object({
            notification_ids: z.array(z.string()).describe('Those that there are'),
            marked_count: z.int(),
            is_read: z.literal(false),
          }),
          'They are unread',
        ),
        ...failures(ofMutations),
      },
    },
    handler: async (request) => {
      const { notification_ids: ids } = request.body;
      const marked = await markNotifications(deps.orm.em.fork(), scopeOf(request), ids, false);
      return success(
        { notification_ids: marked, marked_count: marked.length, is_read: false as const },
        `Notifications marked as unread: ${marked.length}`,
      );
    },
  });
}
