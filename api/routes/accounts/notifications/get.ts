import { findNotification } from '../../../../db/accounts/notifications.ts';
import { anyUser, scopeOf } from '../../../access.ts';
import type { Api, ApiDependencies } from '../../../dependencies.ts';
import { envelope, failures, success } from '../../../schemas/replies.ts';
import { notificationPath, notificationSchema, presentNotification } from './notification-schema.ts';

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
      return success(presentNotification(await findNotification(deps.orm.em.fork(), scopeOf(request), id)));
    },
  });
}
