import { z } from 'zod';
import { deleteNotifications } from '../../../../db/accounts/notifications.ts';
import { anyUser, scopeOf } from '../../../access.ts';
import type { Api, ApiDependencies } from '../../../dependencies.ts';
import { envelope, failures, ofMutations, success } from '../../../schemas/replies.ts';
import { bulkBody } from './bulk-body.ts';

/** `POST /v1/notifications/bulk-delete`. */
export function bulkDeleteNotifications(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'POST',
    url: '/v1/notifications/bulk-delete',
    config: { access: anyUser('own') },
    schema: {
      operationId: 'bulkDeleteNotifications',
      tags: ['Notifications'],
      summary: 'Delete several notifications',
      description: 'Unknown ids and ids of other users are ignored; the count says how many were deleted.',
      body: bulkBody,
      response: {
        200: envelope(
          z.object({
            notification_ids: z.array(z.string()).describe('The ids of the deleted notifications'),
            deleted_count: z.int(),
          }),
          'They are deleted',
        ),
        ...failures(ofMutations),
      },
    },
    handler: async (request) => {
      const { notification_ids: ids } = request.body;
      const deleted = await deleteNotifications(deps.orm.em.fork(), scopeOf(request), ids);
      return success(
        { notification_ids: deleted, deleted_count: deleted.length },
        `Notifications deleted: ${deleted.length}`,
      );
    },
  });
}
