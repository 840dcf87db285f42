import { z } from 'zod';
import { listMethods } from '../../../../db/billing/payment-methods.ts';
import { accountRoot, scopeOf } from '../../../access.ts';
import type { Api, ApiDependencies } from '../../../dependencies.ts';
import { requireProcessor } from '../../../processor-calls.ts';
import { envelope, failures, success } from '../../../schemas/replies.ts';
import { methodSchema, presentMethod } from './method-schema.ts';

/** `GET /v1/payment/methods`. */
export function listPaymentMethods(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'GET',
    url: '/v1/payment/methods',
    config: { access: accountRoot('account') },
    schema: {
      operationId: 'listPaymentMethods',
      tags: ['Payments'],
      summary: 'List the payment methods of the account, newest first',
      description: "The card's number is not included: it never passes through the platform.",
      response: {
        200: envelope(z.object({ payment_methods: z.array(methodSchema) }), 'The payment methods'),
        ...failures('root_required', 'payments_not_configured'),
      },
    },
    handler: async (request) => {
      requireProcessor(deps);
      const methods = await listMethods(deps.orm.em, scopeOf(request));
      return success({ payment_methods: methods.map(presentMethod) });
    },
  });
}
