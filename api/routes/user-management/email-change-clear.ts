import { clearEmailChanges } from '../../../db/repositories/email-changes.ts';
import { anyUser, callerOf } from '../../access.ts';
import type { Api, ApiDependencies } from '../../dependencies.ts';
import { messageEnvelope, successMessage } from '../../schemas/envelope.ts';
import { failures, ofMutations } from '../../schemas/failures.ts';

/**
 * `POST /v1/user-management/account/clear-email-change-requests`. The wait for the next request stays: clearing must not
 * allow any number of mails to strangers.
 */
export function clearEmailChangeRequests(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'POST',
    url: '/v1/user-management/account/clear-email-change-requests',
    config: { access: anyUser('by_role') },
    schema: {
      operationId: 'clearEmailChangeRequests',
      tags: ['Account'],
      summary: "Give up a pending change of the account's e-mail; a user who is not root gives up only their own",
      description: 'The next request has to wait as long as without it. Without a pending change nothing happens.',
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
      return successMessage(cleared === 0 ? 'There was nothing to clear' : 'The pending change is cleared');
    },
  });
}
