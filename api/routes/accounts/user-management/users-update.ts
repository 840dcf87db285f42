import { changeUser } from '../../../../db/accounts/user-management.ts';
import { accountRoot, callerOf, scopeOf } from '../../../access.ts';
import type { Api, ApiDependencies } from '../../../dependencies.ts';
import { bodyBytesWithDescription } from '../../../schemas/fields.ts';
import { failures, messageEnvelope, ofMutations, successMessage } from '../../../schemas/replies.ts';
import { userChangeBody, userChangeOf } from '../../../schemas/user-change.ts';
import { userPath } from './user-schema.ts';

/** `PUT /v1/user-management/users/{user_id}`. */
export function updateUser(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'PUT',
    url: '/v1/user-management/users/:user_id',
    config: { bodyBytes: bodyBytesWithDescription, access: accountRoot('account') },
    schema: {
      operationId: 'updateUser',
      tags: ['Users'],
      summary: 'Change, disable or enable a user of the account',
      description:
        'A disabled user immediately loses all access: API keys, access tokens, exec streams, and connections ' +
        'through the ' +
        'gateway to the agents and private ports of their sandboxes. The sandboxes continue until their timeout.',
      params: userPath,
      body: userChangeBody,
      response: {
        200: messageEnvelope('The user is changed'),
        ...failures(
          ofMutations,
          'root_required',
          'admin_required',
          'not_found',
          'invalid_name',
          'last_root_user',
          'last_admin',
          'user_being_deleted',
        ),
      },
    },
    handler: async (request) => {
      const { user_id: userId } = request.params;
      const change = userChangeOf(request.body);
      await changeUser(deps.orm.em.fork(), scopeOf(request), callerOf(request), userId, change);
      return successMessage('The user is changed');
    },
  });
}
