import { z } from 'zod';
import {
  requestEmailChange as beginEmailChange,
  clearEmailChanges,
  confirmEmailChange as confirm,
  findEmailChangeStatus,
} from '../../../db/accounts/email-changes.ts';
import { accountRoot, anyone, anyUser, requireCaller } from '../../access.ts';
import type { Api, ApiDependencies } from '../../dependencies.ts';
import { idempotencyHeaders } from '../../plugins/idempotency.ts';
import { readEmailField } from '../../schemas/fields.ts';
import {
  envelope,
  failures,
  messageEnvelope,
  ofIdempotency,
  ofMutations,
  success,
  successMessage,
} from '../../schemas/replies.ts';
import { requireOwnDomain } from './users.ts';

const requestBody = z.object({
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
      body: requestBody,
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
      requireOwnDomain(deps.settings, requireCaller(request).accountId, newEmail);
      await beginEmailChange(deps.orm.em.fork(), requireCaller(request), { currentEmail, newEmail });
      return successMessage('Confirmation links are being mailed to both addresses; they work for 30 minutes');
    },
  });
}

const statuses = ['none_confirmed', 'partial_confirmed', 'both_confirmed'] as const;

/** `GET /v1/user-management/account/email-change-status`: the status of the newest change. */
export function getEmailChangeStatus(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'GET',
    url: '/v1/user-management/account/email-change-status',
    config: { access: anyUser('account') },
    schema: {
      operationId: 'getEmailChangeStatus',
      tags: ['Account'],
      summary: "Read the status of the newest change of the account's e-mail",
      description: 'The status is `none_confirmed`, `partial_confirmed` or `both_confirmed`.',
      response: {
        200: envelope(
          z.object({ has_pending_request: z.boolean(), status: z.enum(statuses) }),
          '`both_confirmed`: the newest change is completed; `none_confirmed` also if there is no change',
        ),
        ...failures(),
      },
    },
    handler: async (request) => {
      const { isPending, confirmations } = await findEmailChangeStatus(deps.orm.em, requireCaller(request).accountId);
      return success({ has_pending_request: isPending, status: statuses[confirmations] });
    },
  });
}

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
      const { accountId, userId, isRootUser } = requireCaller(request);
      const cleared = await clearEmailChanges(
        deps.orm.em.fork(),
        isRootUser ? { rows: 'account', accountId } : { rows: 'user', accountId, userId },
      );
      return successMessage(cleared === 0 ? 'There was no pending change' : 'The pending change is cancelled');
    },
  });
}

const confirmBody = z.object({ token: z.string().max(256).describe('The token of the link in the mail') });

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
      body: confirmBody,
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
