import { z } from 'zod';
import { confirmEmailChange as confirm } from '../../../../db/accounts/email-changes.ts';
import { anyone } from '../../../access.ts';
import type { Api, ApiDependencies } from '../../../dependencies.ts';
import { envelope, failures, ofMutations, success } from '../../../schemas/replies.ts';

const body = z.object({ token: z.string().max(256).describe('The token of the link in the mail') });

/** `POST /v1/user-management/account/confirm-email-change`. */
export function confirmEmailChange(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'POST',
    url: '/v1/user-management/account/confirm-email-change',
    config: { access: anyone({ requestsPerMinute: 20 }) },
    schema: {
      operationId: 'confirmEmailChange',
      tags: ['Account'],
      summary: "Confirm a change of an account's e-mail with the token of a mailed link",
      description:
        'The links of both addresses must be confirmed, in any order. The status is `pending` after the first, ' +
        'with the address ' +
        'that has not confirmed, and `completed` after the second.',
      body,
      response: {
        200: envelope(
          z.object({
            status: z.enum(['pending', 'completed']),
            pending_email: z.string().optional().describe('With `pending`: the address that must still confirm'),
          }),
          'The confirmation counts',
        ),
        ...failures(ofMutations, 'invalid_link', 'email_taken'),
      },
    },
    handler: async (request) => {
      const { pendingEmail } = await confirm(deps.orm.em, request.body.token);
      return success(
        pendingEmail === null
          ? { status: 'completed' as const }
          : { status: 'pending' as const, pending_email: pendingEmail },
      );
    },
  });
}
