import { z } from 'zod';
import { markNotifications } from '../../../db/repositories/notifications.ts';
import { notFound } from '../../../domain/errors.ts';
import { anyUser, scopeOf } from '../../access.ts';
import type { Api, ApiDependencies } from '../../dependencies.ts';
import { envelope, success } from '../../schemas/envelope.ts';
import { failures, ofMutations } from '../../schemas/failures.ts';
import { notificationPath } from './notification-schema.ts';

/** `PATCH /v1/notifications/{notification_id}/unread`. */
export function markNotificationUnread(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'PATCH',
    url: '/v1/notifications/:notification_id/unread',
    config: { access: anyUser('own') },
    schema: {
      operationId: 'markNotificationUnread',
      tags: ['Notifications'],
      summary: 'Mark a notification as unread',
      params: notificationPath,
      response: {
        200: envelope(z.object({ notification_id: z.string(), is_read: z.literal(false) }), 'It is unread'),
        ...failures(ofMutations, 'not_found'),
      },
    },
    handler: async (request) => {
      const { notification_id: id } = request.params;
      const marked = await markNotifications(deps.orm.em.fork(), scopeOf(request), [id], false);
      if (marked.length === 0) throw notFound('Notification');
      return success({ notification_id: id, is_read: false as const }, 'The notification is marked as unread');
    },
  });
}
