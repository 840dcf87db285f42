import { z } from 'zod';
import { anyone } from '../../../access.ts';
import type { Api, ApiDependencies } from '../../../dependencies.ts';
import { setPasswordByLink } from '../../../new-password.ts';
import { newPassword } from '../../../schemas/password.ts';
import { failures, messageEnvelope, ofMutations, successMessage } from '../../../schemas/replies.ts';

const body = z.object({
  token: z.string().max(256).describe('The token of the link in the mail'),
  new_password: newPassword(),
});

/** `POST /v1/auth/reset-password`. */
export function resetPassword(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'POST',
    url: '/v1/auth/reset-password',
    config: { access: anyone({ requestsPerMinute: 20 }) },
    schema: {
      operationId: 'resetPassword',
      tags: ['Sign-in'],
      summary: 'Set a new password with the token of a mailed link',
      description:
        'Ends all sessions of the user and makes their other links invalid. The token is used up, unless the password ' +
        'is refused.',
      body,
      response: {
        200: messageEnvelope('The password is set; all sessions of the user have ended'),
        ...failures(ofMutations, 'invalid_link', 'weak_password', 'password_not_changed'),
      },
    },
    handler: async ({ body: { token, new_password: password }, ip: address }) => {
      await setPasswordByLink(deps, { token, password, address });
      return successMessage('The new password is set');
    },
  });
}
