import { z } from 'zod';
import { markAllNotificationsRead } from '../../../../db/accounts/notifications.ts';
import { anyUser, scopeOf } from '../../../access.ts';
import type { Api, ApiDependencies } from '../../../dependencies.ts';
import { envelope, failures, ofMutations, success } from '../../../schemas/replies.ts';

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
      const count = await markAllNotificationsRead(deps.orm.em.fork(), scopeOf(request));
      return success({ marked_count: count, is_read: true as const }, `Notifications marked as read: ${count}`);
    },
  });
}
