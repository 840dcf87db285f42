import { z } from 'zod';
import { requestUserDeletion } from '../../../../db/accounts/user-deletion.ts';
import { accountRoot, callerOf, scopeOf } from '../../../access.ts';
import type { Api, ApiDependencies } from '../../../dependencies.ts';
import { envelope, failures, ofMutations, success } from '../../../schemas/replies.ts';
import { userPath } from './user-schema.ts';

const deletion = z.object({
  message: z.string(),
  deleted_empty_projects: z.int().min(0).describe('The number of removed projects without sandboxes'),
  deletion_status: z.enum(['in_progress']),
  note: z.string(),
});

/** `DELETE /v1/user-management/users/{user_id}`: disables the user at once, and deletes them in the background. */
export function deleteUser(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'DELETE',
    url: '/v1/user-management/users/:user_id',
    config: { access: accountRoot('account') },
    schema: {
      operationId: 'deleteUser',
      tags: ['Users'],
      summary: 'Delete a user of the account',
      description:
        'Sandboxes of the user are terminated. Projects with ended sandboxes, and templates that others can ' +
        'see, go to a ' +
        'root user of the account; private templates, keys, notifications and quotas are removed. The user is listed as ' +
        'disabled until all of this is done.',
      params: userPath,
      response: {
        202: envelope(deletion, 'The deletion has begun'),
        ...failures(ofMutations, 'root_required', 'not_found', 'own_deletion', 'last_root_user', 'last_admin'),
      },
    },
    handler: async (request, reply) => {
      const { user_id: userId } = request.params;
      const emptyProjects = await requestUserDeletion(deps.orm.em.fork(), scopeOf(request), callerOf(request), userId);
      return reply.code(202).send(
        success({
          message: 'The user is being deleted',
          deleted_empty_projects: emptyProjects,
          deletion_status: 'in_progress' as const,
          note:
            'Sandboxes are terminated and projects transferred in the background; the user is 404 when that is ' +
            'done',
        }),
      );
    },
  });
}
