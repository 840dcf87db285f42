import { z } from 'zod';
import { anyone } from '../../../access.ts';
import type { Api, ApiDependencies } from '../../../dependencies.ts';
import { requireProcessor } from '../../../processor-calls.ts';
import { envelope, failures, success } from '../../../schemas/replies.ts';

/** `GET /v1/config/payment-processor`: the configuration that a browser needs to add a card. */
export function getProcessorConfig(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'GET',
    url: '/v1/config/payment-processor',
    config: { access: anyone({ requestsPerMinute: 120 }) },
    schema: {
      operationId: 'getPaymentProcessor',
      tags: ['Payments'],
      summary: 'Get the public key of the payment processor',
      description: 'A browser needs it to send a card to the processor. `test_mode` is true if no real money moves.',
      response: {
        200: envelope(z.object({ publishable_key: z.string(), test_mode: z.boolean() }), 'The public key'),
        ...failures('payments_not_configured'),
      },
    },
    handler: async () => {
      const { publishableKey, isTest } = requireProcessor(deps);
      return success({ publishable_key: publishableKey, test_mode: isTest });
    },
  });
}
