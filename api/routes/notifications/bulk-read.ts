import { z } from 'zod';
import { markNotifications } from '../../../db/repositories/notifications.ts';
import { anyUser, scopeOf } from '../../access.ts';
import type { Api, ApiDependencies } from '../../dependencies.ts';
import { envelope, success } from '../../schemas/envelope.ts';
import { failures, ofMutations } from '../../schemas/failures.ts';
import { bulkBody } from './bulk-body.ts';

/** `PATCH /v1/notifications/bulk-read`. */
export function bulkMarkNotificationsRead(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'PATCH',
    url: '/v1/notifications/bulk-read',
    config: { access: anyUser('own') },
    schema: {
      operationId: 'bulkMarkNotificationsRead',
      tags: ['Notifications'],
      summary: 'Mark several notifications as read',
      body: bulkBody,
      response: {
        200: envelope(
          z.object({
            notification_ids: z.array(z.string()).describe('Those that there are'),
            marked_count: z.int(),
            is_read: z.literal(true),
          }),
          'They are read',
        ),
        ...failures(ofMutations),
      },
    },
    handler: async (request) => {
      const { notification_ids: ids } = request.body;
      const marked = await markNotifications(deps.orm.em.fork(), scopeOf(request), ids, true);
      return success(
        { notification_ids: marked, marked_count: marked.length, is_read: true as const },
        `Notifications marked as read: ${marked.length}`,
      );
    },
  });
}
