import { z } from 'zod';
import { deleteNotifications } from '../../../../db/accounts/notifications.ts';
import { notFound } from '../../../../domain/errors.ts';
import { anyUser, scopeOf } from '../../../access.ts';
import type { Api, ApiDependencies } from '../../../dependencies.ts';
import { envelope, failures, ofMutations, success } from '../../../schemas/replies.ts';
import { notificationPath } from './notification-schema.ts';

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
      const deleted = await deleteNotifications(deps.orm.em.fork(), scopeOf(request), [id]);
      if (deleted.length === 0) throw notFound('Notification');
      return success({ notification_id: id, deleted: true as const }, 'The notification is deleted');
    },
  });
}
