import { z } from 'zod';
import { findResettableUser } from '../../../../db/accounts/passwords.ts';
import { findUserWithin } from '../../../../db/accounts/users.ts';
import { AppError, notFound } from '../../../../domain/errors.ts';
import { accountRoot, scopeOf } from '../../../access.ts';
import type { Api, ApiDependencies } from '../../../dependencies.ts';
import { givenId } from '../../../schemas/fields.ts';
import { envelope, failures, ofMutations, success } from '../../../schemas/replies.ts';

/** `POST /v1/user-management/users/{user_id}/reset-password`. */
export function resetUserPassword(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'POST',
    url: '/v1/user-management/users/:user_id/reset-password',
    config: { access: accountRoot('account') },
    schema: {
      operationId: 'resetUserPassword',
      tags: ['Users'],
      summary: 'Mail a user a link to set a new password',
      description: 'The link in the mail works once, for 30 minutes. Until it is used, the old password works.',
      params: z.object({ user_id: givenId('user') }),
      response: {
        200: envelope(z.object({ message: z.string() }), 'The link is being mailed; it works for 30 minutes'),
        ...failures(ofMutations, 'root_required', 'not_found', 'no_local_password', 'password_reset_pending'),
      },
    },
    handler: async (request) => {
      const { user_id: userId } = request.params;
      if (!(await findUserWithin(deps.orm.em, scopeOf(request), userId))) throw notFound('User');
      const user = await findResettableUser(deps.orm.em, { userId });
      if (!user) {
        throw new AppError('no_local_password', 'The user is disabled, or signs in through an identity provider');
      }
      await deps.passwordResets.request(user);
      return success({ message: 'A link to set a new password is being mailed to the user; it works for 30 minutes' });
    },
  });
}
