import { z } from 'zod';
import { markNotifications } from '../../../../db/accounts/notifications.ts';
import { notFound } from '../../../../domain/errors.ts';
import { anyUser, scopeOf } from '../../../access.ts';
import type { Api, ApiDependencies } from '../../../dependencies.ts';
import { envelope, failures, ofMutations, success } from '../../../schemas/replies.ts';
import { notificationPath } from './notification-schema.ts';

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
        const marked = await markNotifications(deps.orm.em.fork(), scopeOf(request), [id], isRead);
        if (marked.length === 0) throw notFound('Notification');
        return success({ notification_id: id, is_read: isRead }, `The notification is marked as ${state}`);
      },
    });
  };
}
