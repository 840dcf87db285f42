import { z } from 'zod';
import { findEmailChangeStatus } from '../../../../db/accounts/email-changes.ts';
import { anyUser, callerOf } from '../../../access.ts';
import type { Api, ApiDependencies } from '../../../dependencies.ts';
import { envelope, failures, success } from '../../../schemas/replies.ts';

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
      const { isPending, confirmations } = await findEmailChangeStatus(deps.orm.em, callerOf(request).accountId);
      return success({ has_pending_request: isPending, status: statuses[confirmations] });
    },
  });
}
