import { z } from 'zod';
import { findSetup } from '../../../../db/billing/payment-methods.ts';
import { notFound } from '../../../../domain/errors.ts';
import { accountRoot, callerOf } from '../../../access.ts';
import type { Api, ApiDependencies } from '../../../dependencies.ts';
import { keepFinishedSetup } from '../../../payment-setups.ts';
import { askProcessor, requireProcessor } from '../../../processor-calls.ts';
import { envelope, failures, ofMutations, success } from '../../../schemas/replies.ts';

const method = z.object({
  payment_method_id: z.string(),
  last4: z.string().nullable(),
  brand: z.string().nullable(),
  is_verified: z.boolean(),
});

/**
 * `POST /v1/payment/methods/check-status`: whether a card was added. Asks the processor if its notification has not
 * arrived.
 */
export function checkPaymentMethod(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'POST',
    url: '/v1/payment/methods/check-status',
    config: { access: accountRoot('account') },
    schema: {
      operationId: 'checkPaymentMethod',
      tags: ['Payments'],
      summary: 'Check whether a new card has been added',
      description:
        'Asks the processor if its notification has not arrived. `processed` is false until the processor has ' +
        'verified the card: repeat the request until then.',
      body: z.object({ setup_intent_id: z.string().min(1).max(255) }),
      response: {
        200: envelope(
          z.object({ processed: z.boolean(), method: method.nullable() }),
          'The card; while it is not verified, `processed` is false and `message` asks you to try again',
        ),
        ...failures(
          ...([ofMutations, 'root_required', 'not_found'] as const),
          ...(['payments_not_configured', 'payment_processor_unavailable'] as const),
        ),
      },
    },
    handler: async (request) => {
      const processor = requireProcessor(deps);
      const { setup_intent_id: setupIntentId } = request.body;
      const begun = await findSetup(deps.orm.em, setupIntentId);
      if (begun?.accountId !== callerOf(request).accountId) throw notFound('Setup intent');
      const kept = await askProcessor(keepFinishedSetup({ orm: deps.orm, processor }, setupIntentId));
      if (!kept) {
        return success({ processed: false, method: null }, 'The card is not verified yet; try again in a few seconds');
      }
      const { paymentMethodId, last4, brand, isVerified } = kept;
      const shown = { last4: last4 ?? null, brand: brand ?? null, is_verified: isVerified };
      return success({ processed: true, method: { payment_method_id: paymentMethodId, ...shown } });
    },
  });
}
