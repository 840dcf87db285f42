import { z } from 'zod';
import { requestEmailChange as beginEmailChange } from '../../../../db/accounts/email-changes.ts';
import { accountRoot, callerOf } from '../../../access.ts';
import type { Api, ApiDependencies } from '../../../dependencies.ts';
import { idempotencyHeaders } from '../../../plugins/idempotency.ts';
import { readEmailField, requireOwnDomain } from '../../../schemas/email-field.ts';
import { failures, messageEnvelope, ofIdempotency, ofMutations, successMessage } from '../../../schemas/replies.ts';

const body = z.object({
  current_email: z.string().max(1024).describe('Of the account'),
  new_email: z.string().max(1024),
});

/** `POST /v1/user-management/account/email-change-request`. */
export function requestEmailChange(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'POST',
    url: '/v1/user-management/account/email-change-request',
    config: { access: accountRoot('account'), idempotency: { makes: 'request' } },
    schema: {
      operationId: 'requestEmailChange',
      tags: ['Account'],
      summary: "Change the account's e-mail: both addresses get a link to confirm",
      description:
        'Both addresses get a link that works for 30 minutes; the e-mail changes when both are confirmed. Another ' +
        'request must wait for these 30 minutes.',
      headers: idempotencyHeaders,
      body,
      response: {
        200: messageEnvelope('The links are being mailed; they work for 30 minutes'),
        ...failures(
          ...([ofMutations, ofIdempotency, 'root_required', 'email_mismatch', 'email_not_changed'] as const),
          ...(['email_taken', 'email_domain_not_allowed', 'email_change_pending'] as const),
        ),
      },
    },
    handler: async (request) => {
      const currentEmail = readEmailField('current_email', request.body.current_email);
      const newEmail = readEmailField('new_email', request.body.new_email);
      requireOwnDomain(deps.settings, callerOf(request).accountId, newEmail);
      await beginEmailChange(deps.orm.em.fork(), callerOf(request), { currentEmail, newEmail });
      return successMessage('Confirmation links are being mailed to both addresses; they work for 30 minutes');
    },
  });
}
