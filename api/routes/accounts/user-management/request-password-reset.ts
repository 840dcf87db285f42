import { findResettableUser } from '../../../../db/accounts/passwords.ts';
import { AppError } from '../../../../domain/errors.ts';
import { anyUser, callerOf } from '../../../access.ts';
import type { Api, ApiDependencies } from '../../../dependencies.ts';
import { failures, messageEnvelope, ofMutations, successMessage } from '../../../schemas/replies.ts';

/** `POST /v1/user-management/request-password-reset`. */
export function requestPasswordReset(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'POST',
    url: '/v1/user-management/request-password-reset',
    config: { access: anyUser('own') },
    schema: {
      operationId: 'requestPasswordReset',
      tags: ['Users'],
      summary: 'Request a mail to yourself with a link to set a new password',
      description:
        'The link in the mail works once, for 30 minutes. While a link is valid, another request is refused ' +
        'and says how ' +
        'long.',
      response: {
        200: messageEnvelope('The link is being mailed; it works for 30 minutes'),
        ...failures(ofMutations, 'no_local_password', 'password_reset_pending'),
      },
    },
    handler: async (request) => {
      const user = await findResettableUser(deps.orm.em, { userId: callerOf(request).userId });
      if (!user) throw new AppError('no_local_password', 'This user signs in through an identity provider');
      await deps.passwordResets.request(user);
      return successMessage('A link to set a new password is being mailed to you; it works for 30 minutes');
    },
  });
}
