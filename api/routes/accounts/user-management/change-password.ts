import { z } from 'zod';
import { anyUser, callerOf } from '../../../access.ts';
import type { Api, ApiDependencies } from '../../../dependencies.ts';
import { changeOwnPassword } from '../../../new-password.ts';
import { givenPassword, newPassword } from '../../../schemas/password.ts';
import { failures, messageEnvelope, ofMutations, successMessage } from '../../../schemas/replies.ts';

const body = z.object({ current_password: givenPassword(), new_password: newPassword() });

/** `POST /v1/user-management/change-password`. */
export function changePassword(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'POST',
    url: '/v1/user-management/change-password',
    config: { access: anyUser('own') },
    schema: {
      operationId: 'changePassword',
      tags: ['Users'],
      summary: 'Change your own password',
      description:
        'Ends all sessions of the user, including this one. Attempts with a wrong current password are ' +
        'throttled like ' +
        'sign-ins do.',
      body,
      response: {
        200: messageEnvelope('The password is changed; all sessions of the user have ended'),
        ...failures(
          ofMutations,
          'weak_password',
          'wrong_password',
          'password_not_changed',
          'no_local_password',
          'too_many_sign_ins',
        ),
      },
    },
    handler: async (request) => {
      const { current_password: current, new_password: next } = request.body;
      await changeOwnPassword(deps, { userId: callerOf(request).userId, current, next, address: request.ip });
      return successMessage('The password is changed; sign in again with the new one');
    },
  });
}
