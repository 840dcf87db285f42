import { z } from 'zod';
import { accountRoot, callerOf } from '../../../access.ts';
import type { Api, ApiDependencies } from '../../../dependencies.ts';
import { beginSetup } from '../../../payment-setups.ts';
import { idempotencyHeaders } from '../../../plugins/idempotency.ts';
import { askProcessor, requireProcessor } from '../../../processor-calls.ts';
import { envelope, failures, ofIdempotency, ofMutations, success } from '../../../schemas/replies.ts';

/** `POST /v1/payment/methods/setup-intent`: begins to add a card. The browser continues with the processor. */
export function setUpPaymentMethod(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'POST',
    url: '/v1/payment/methods/setup-intent',
    config: {
      access: accountRoot('account'),
      idempotency: {
        makes: 'request',
        secrets: ['client_secret'],
        restore: (data) => ({ ...data, client_secret: '' }),
      },
    },
    schema: {
      operationId: 'setUpPaymentMethod',
      tags: ['Payments'],
      summary: 'Begin to add a card',
      description:
        'The reply has a secret with which a browser sends the card to the processor; `POST ' +
        '/v1/payment/methods/check-status` then says whether the card has been added. The secret is not stored.',
      headers: idempotencyHeaders,
      response: {
        200: envelope(
          z.object({ client_secret: z.string().describe('Empty in a repeated reply'), setup_intent_id: z.string() }),
          'The data for the browser; the secret is not stored',
        ),
        ...failures(
          ...([ofMutations, ofIdempotency, 'root_required', 'payment_method_limit_reached'] as const),
          ...(['payments_not_configured', 'payment_processor_unavailable'] as const),
        ),
      },
    },
    handler: async (request) => {
      const processor = requireProcessor(deps);
      const begun = await askProcessor(beginSetup({ orm: deps.orm, processor }, callerOf(request).accountId));
      return success({ client_secret: begun.clientSecret, setup_intent_id: begun.setupIntentId });
    },
  });
}
