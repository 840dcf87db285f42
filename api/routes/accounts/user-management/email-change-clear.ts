import { clearEmailChanges } from '../../../../db/accounts/email-changes.ts';
import { anyUser, callerOf } from '../../../access.ts';
import type { Api, ApiDependencies } from '../../../dependencies.ts';
import { failures, messageEnvelope, ofMutations, successMessage } from '../../../schemas/replies.ts';

/**
 * `POST /v1/user-management/account/clear-email-change-requests`. The wait before the next request still applies, so
 * that a caller cannot send many mails to strangers by clearing.
 */
export function clearEmailChangeRequests(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'POST',
    url: '/v1/user-management/account/clear-email-change-requests',
    config: { access: anyUser('by_role') },
    schema: {
      operationId: 'clearEmailChangeRequests',
      tags: ['Account'],
      summary: "Cancel a pending change of the account's e-mail; users who are not root can cancel only their own",
      description: 'This does not shorten the wait for the next request. Without a pending change, nothing happens.',
      response: {
        200: messageEnvelope('No change is pending; links that were mailed no longer work'),
        ...failures(ofMutations),
      },
    },
    handler: async (request) => {
      const { accountId, userId, isRootUser } = callerOf(request);
      const cleared = await clearEmailChanges(
        deps.orm.em.fork(),
        isRootUser ? { rows: 'account', accountId } : { rows: 'user', accountId, userId },
      );
      return successMessage(cleared === 0 ? 'There was no pending change' : 'The pending change is cancelled');
    },
  });
}
