import { z } from 'zod';
import { readPaymentIntent } from '../../../../db/billing/payment-intents.ts';
import { accountRoot, scopeOf } from '../../../access.ts';
import type { Api, ApiDependencies } from '../../../dependencies.ts';
import { requireProcessor } from '../../../processor-calls.ts';
import { envelope, failures, success } from '../../../schemas/replies.ts';
import { intentSchema, presentIntent } from './intent-schema.ts';

/** `GET /v1/payment/intents/{id}`. */
export function getPaymentIntent(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'GET',
    url: '/v1/payment/intents/:id',
    config: { access: accountRoot('account') },
    schema: {
      operationId: 'getPaymentIntent',
      tags: ['Payments'],
      summary: 'Get a charge',
      description: "Takes the payment processor's id (`pi_…`). Returns the state that the processor reported last.",
      params: z.object({ id: z.string().meta({ example: 'pi_1QexampleK2eZvKYlo2C' }) }),
      response: {
        200: envelope(intentSchema, 'The charge'),
        ...failures('root_required', 'not_found', 'payments_not_configured'),
      },
    },
    handler: async (request) => {
      requireProcessor(deps);
      return success(presentIntent(await readPaymentIntent(deps.orm.em.fork(), scopeOf(request), request.params.id)));
    },
  });
}
