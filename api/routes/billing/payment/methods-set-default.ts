import { z } from 'zod';
import { setDefaultMethod } from '../../../../db/billing/payment-methods.ts';
import { accountRoot, callerOf } from '../../../access.ts';
import type { Api, ApiDependencies } from '../../../dependencies.ts';
import { requireProcessor } from '../../../processor-calls.ts';
import { envelope, failures, ofMutations, success } from '../../../schemas/replies.ts';
import { methodSchema, presentMethod } from './method-schema.ts';

/** `POST /v1/payment/methods/set-default`. */
export function setDefaultPaymentMethod(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'POST',
    url: '/v1/payment/methods/set-default',
    config: { access: accountRoot('account') },
    schema: {
      operationId: 'setDefaultPaymentMethod',
      tags: ['Payments'],
      summary: 'Choose the payment method that is charged',
      description:
        "Takes the platform's id of the method (`pmt-…`) or the processor's (`pm_…`). Only a verified method " +
        'can be charged.',
      body: z.object({ payment_method_id: z.string().min(1).max(255) }),
      response: {
        200: envelope(methodSchema, 'The payment method'),
        ...failures(ofMutations, 'root_required', 'not_found', 'payment_method_not_usable', 'payments_not_configured'),
      },
    },
    handler: async (request) => {
      requireProcessor(deps);
      const { accountId } = callerOf(request);
      const chosen = await setDefaultMethod(deps.orm.em.fork(), accountId, request.body.payment_method_id);
      return success(presentMethod(chosen));
    },
  });
}
