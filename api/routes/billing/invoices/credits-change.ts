import { z } from 'zod';
import { changeCredit, findBalanceChange } from '../../../../db/billing/ledger.ts';
import { notFound } from '../../../../domain/errors.ts';
import { operator } from '../../../access.ts';
import type { Api, ApiDependencies } from '../../../dependencies.ts';
import { createOnce, idempotencyHeaders } from '../../../plugins/idempotency.ts';
import { givenId, withDefaultNonZero } from '../../../schemas/fields.ts';
import { positiveAmount } from '../../../schemas/money.ts';
import { envelope, failures, ofIdempotency, ofMutations, success } from '../../../schemas/replies.ts';
import { balanceChangeSchema, presentBalanceChange } from './balance-schema.ts';

/** `POST /v1/accounts/{account_id}/credits`: operators grant credit, or take back unused credit that they pay out. */
export function changeCredits(api: Api, deps: ApiDependencies): void {
  const body = z.object({
    action: z.enum(['grant', 'refund']),
    amount: positiveAmount(deps.plans.currency),
    description: withDefaultNonZero(z.string().max(500), 'By the operator of the platform'),
  });
  api.route({
    method: 'POST',
    url: '/v1/accounts/:account_id/credits',
    config: { access: operator('everything'), idempotency: { makes: 'ledgerTransaction' } },
    schema: {
      operationId: 'changeCredits',
      tags: ['Billing'],
      summary: 'Grant credit to an account, or remove unused credit that is paid out',
      description:
        '`grant` adds credit. `refund` removes unused credit that the operator pays out outside of the platform; ' +
        'it cannot be more than the balance.',
      headers: idempotencyHeaders,
      params: z.object({ account_id: givenId('account') }),
      body,
      response: {
        201: envelope(balanceChangeSchema, 'The change of the balance'),
        ...failures(ofMutations, ofIdempotency, 'admin_required', 'balance_too_low', 'not_found'),
      },
    },
    handler: async (request, reply) => {
      const { account_id: accountId } = request.params;
      const em = deps.orm.em.fork();
      const made = await createOnce(request, 'ledgerTransaction', {
        find: (id) => findBalanceChange(em, id),
        create: async (transactionId) => {
          const { currency } = deps.plans;
          await changeCredit(em, { ...request.body, transactionId, accountId, currency });
          const change = await findBalanceChange(em, transactionId);
          if (!change) throw notFound('Change of the balance');
          return change;
        },
      });
      return reply.code(201).send(success(presentBalanceChange(made)));
    },
  });
}
