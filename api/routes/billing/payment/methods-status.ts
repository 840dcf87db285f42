import { z } from 'zod';
import { hasMethods } from '../../../../db/billing/payment-methods.ts';
import { anyUser, callerOf } from '../../../access.ts';
import type { Api, ApiDependencies } from '../../../dependencies.ts';
import { requireProcessor } from '../../../processor-calls.ts';
import { envelope, failures, success } from '../../../schemas/replies.ts';

/** `GET /v1/payment/methods/status`. */
export function getPaymentMethodsStatus(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'GET',
    url: '/v1/payment/methods/status',
    config: { access: anyUser('account') },
    schema: {
      operationId: 'getPaymentMethodsStatus',
      tags: ['Payments'],
      summary: 'Check whether the account has a verified payment method',
      description: 'For pages that ask for a card first. The reply has no details of the card.',
      response: {
        200: envelope(z.object({ has_payment_methods: z.boolean() }), 'Whether there is one'),
        ...failures('payments_not_configured'),
      },
    },
    handler: async (request) => {
      requireProcessor(deps);
      return success({ has_payment_methods: await hasMethods(deps.orm.em, callerOf(request).accountId) });
    },
  });
}
