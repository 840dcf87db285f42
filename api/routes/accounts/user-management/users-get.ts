import { findUserWithin } from '../../../../db/accounts/users.ts';
import { notFound } from '../../../../domain/errors.ts';
import { accountRoot, scopeOf } from '../../../access.ts';
import type { Api, ApiDependencies } from '../../../dependencies.ts';
import { envelope, failures, success } from '../../../schemas/replies.ts';
import { presentUser, userPath, userSchema } from './user-schema.ts';

/** `GET /v1/user-management/users/{user_id}`. */
export function getUser(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'GET',
    url: '/v1/user-management/users/:user_id',
    config: { access: accountRoot('account') },
    schema: {
      operationId: 'getUser',
      tags: ['Users'],
      summary: 'Read a user of the account',
      description: "The user must be of the caller's account; an admin can read users of any account.",
      params: userPath,
      response: { 200: envelope(userSchema, 'The user'), ...failures('root_required', 'not_found') },
    },
    handler: async (request) => {
      const user = await findUserWithin(deps.orm.em, scopeOf(request), request.params.user_id);
      if (!user) throw notFound('User');
      return success(presentUser(user));
    },
  });
}
