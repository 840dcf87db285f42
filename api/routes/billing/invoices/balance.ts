import { z } from 'zod';
import { balanceOf } from '../../../../db/billing/ledger.ts';
import { toJsonNumber } from '../../../../domain/billing/money.ts';
import { accountRoot, callerOf } from '../../../access.ts';
import type { Api, ApiDependencies } from '../../../dependencies.ts';
import { amount, currency } from '../../../schemas/money.ts';
import { envelope, failures, success } from '../../../schemas/replies.ts';

const balance = z.object({ account_id: z.string(), balance: amount(), currency: currency() });

/** `GET /v1/billing/balance`: the credit of the account, which pays for invoices before a card does. */
export function getBalance(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'GET',
    url: '/v1/billing/balance',
    config: { access: accountRoot('account') },
    schema: {
      operationId: 'getBalance',
      tags: ['Billing'],
      summary: 'Get the credit of the account',
      description: 'In the currency of the plans. Credit pays for invoices before a payment method is charged.',
      response: { 200: envelope(balance, 'The balance'), ...failures('root_required') },
    },
    handler: async (request) => {
      const { accountId } = callerOf(request);
      const { currency } = deps.plans;
      const credit = await balanceOf(deps.orm.em.fork(), accountId, currency);
      return success({ account_id: accountId, balance: toJsonNumber(credit), currency });
    },
  });
}
