import { z } from 'zod';
import { markNotifications } from '../../../../db/accounts/notifications.ts';
import { anyUser, scopeOf } from '../../../access.ts';
import type { Api, ApiDependencies } from '../../../dependencies.ts';
import { envelope, failures, ofMutations, success } from '../../../schemas/replies.ts';
import { bulkBody } from './bulk-body.ts';

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
        const marked = await markNotifications(deps.orm.em.fork(), scopeOf(request), ids, isRead);
        return success(
          { notification_ids: marked, marked_count: marked.length, is_read: isRead },
          `Notifications marked as ${state}: ${marked.length}`,
        );
      },
    });
  };
}
