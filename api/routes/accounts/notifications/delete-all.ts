import { z } from 'zod';
import { deleteAllNotifications } from '../../../../db/accounts/notifications.ts';
import { anyUser, scopeOf } from '../../../access.ts';
import type { Api, ApiDependencies } from '../../../dependencies.ts';
import { envelope, failures, ofMutations, success } from '../../../schemas/replies.ts';

/** `DELETE /v1/notifications`. */
export function deleteAll(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'DELETE',
    url: '/v1/notifications',
    config: { access: anyUser('own') },
    schema: {
      operationId: 'deleteAllNotifications',
      tags: ['Notifications'],
      summary: 'Delete all your notifications',
      description: 'Deletes read and unread ones of the calling user.',
      response: {
        200: envelope(z.object({ deleted_count: z.int() }), 'All are deleted'),
        ...failures(ofMutations),
      },
    },
    handler: async (request) => {
      const count = await deleteAllNotifications(deps.orm.em.fork(), scopeOf(request));
      return success({ deleted_count: count }, `Notifications deleted: ${count}`);
    },
  });
}
