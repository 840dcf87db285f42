import { z } from 'zod';
import { listPaymentIntents as readIntents } from '../../../../db/billing/payment-intents.ts';
import { accountRoot, scopeOf } from '../../../access.ts';
import type { Api, ApiDependencies } from '../../../dependencies.ts';
import { requireProcessor } from '../../../processor-calls.ts';
import { optionalQuery } from '../../../schemas/fields.ts';
import { accountQuery, listingOf, paginationOf, paginationSchema, pagingQueryOf } from '../../../schemas/lists.ts';
import { envelope, failures, ofPaging, success } from '../../../schemas/replies.ts';
import { intentSchema, presentIntent } from './intent-schema.ts';

const query = z.object({
  ...pagingQueryOf(20),
  ...accountQuery,
  type: optionalQuery(z.string().max(64)).describe('Only those with this `intent_type`'),
});

/** `GET /v1/payment/intents`. */
export function listPaymentIntents(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'GET',
    url: '/v1/payment/intents',
    config: { access: accountRoot('account') },
    schema: {
      operationId: 'listPaymentIntents',
      tags: ['Payments'],
      summary: 'List the charges of the account, newest first',
      description: 'Each has its amount, its state and, if it failed, the reason. `type` filters the list.',
      querystring: query,
      response: {
        200: envelope(
          z.object({ payment_intents: z.array(intentSchema), pagination: paginationSchema }),
          'A page of charges',
        ),
        ...failures(ofPaging, 'root_required', 'admin_required', 'not_found', 'payments_not_configured'),
      },
    },
    handler: async (request) => {
      requireProcessor(deps);
      const listing = listingOf(request.query, 20);
      const em = deps.orm.em.fork();
      const { intents, total } = await readIntents(em, scopeOf(request), request.query.type, listing);
      return success({ payment_intents: intents.map(presentIntent), pagination: paginationOf(listing, total) });
    },
  });
}
