import { z } from 'zod';
import { markNotifications } from '../../../db/repositories/notifications.ts';
import { notFound } from '../../../domain/errors.ts';
import { anyUser, scopeOf } from '../../access.ts';
import type { Api, ApiDependencies } from '../../dependencies.ts';
import { envelope, success } from '../../schemas/envelope.ts';
import { failures, ofMutations } from '../../schemas/failures.ts';
import { notificationPath } from './notification-schema.ts';

/** `PATCH /v1/notifications/{notification_id}/read`. */
export function markNotificationRead(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'PATCH',
    url: '/v1/notifications/:notification_id/read',
    config: { access: anyUser('own') },
    schema: {
      operationId: 'markNotificationRead',
      tags: ['Notifications'],
      summary: 'Mark a notification as read',
      params: notificationPath,
      response: {
        200: envelope(z.object({ notification_id: z.string(), is_read: z.literal(true) }), 'It is read'),
        ...failures(ofMutations, 'not_found'),
      },
    },
    handler: async (request) => {
      const { notification_id: id } = request.params;
      const marked = await markNotifications(deps.orm.em.fork(), scopeOf(request), [id], true);
      if (marked.length === 0) throw notFound('Notification');
      return success({ notification_id: id, is_read: true as const }, 'The notification is marked as read');
    },
  });
}
