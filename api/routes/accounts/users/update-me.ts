import { changeUser } from '../../../../db/accounts/user-management.ts';
import { AppError } from '../../../../domain/errors.ts';
import { anyUser, callerOf, scopeOf } from '../../../access.ts';
import type { Api, ApiDependencies } from '../../../dependencies.ts';
import { bodyBytesWithDescription } from '../../../schemas/fields.ts';
import { failures, messageEnvelope, ofMutations, successMessage } from '../../../schemas/replies.ts';
import { userChangeBody, userChangeOf } from '../../../schemas/user-change.ts';

/** `PUT /v1/users/me`. */
export function updateProfile(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'PUT',
    url: '/v1/users/me',
    config: { bodyBytes: bodyBytesWithDescription, access: anyUser('own') },
    schema: {
      operationId: 'updateProfile',
      tags: ['Users'],
      summary: 'Change your own profile',
      description:
        'Changes display name and description; a root user can also change their role, their status and `is_root_user`. Only an ' +
        'admin can grant or revoke ' +
        'the role `admin`.',
      body: userChangeBody,
      response: {
        200: messageEnvelope('The profile is changed'),
        ...failures(
          ofMutations,
          'root_required',
          'admin_required',
          'invalid_name',
          'last_root_user',
          'last_admin',
          'user_being_deleted',
        ),
      },
    },
    handler: async (request) => {
      const caller = callerOf(request);
      const change = userChangeOf(request.body);
      if (!caller.isRootUser && (change.role ?? change.status ?? change.isRootUser) !== undefined) {
        throw new AppError('root_required', 'Only an account root user may change a role, a status or is_root_user');
      }
      await changeUser(deps.orm.em.fork(), scopeOf(request), caller, caller.userId, change);
      return successMessage('The profile is changed');
    },
  });
}
