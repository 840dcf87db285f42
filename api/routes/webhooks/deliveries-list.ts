import { z } from 'zod';
import { listDeliveries as readDeliveries } from '../../../db/webhooks/webhook-deliveries.ts';
import { anyUser } from '../../access.ts';
import type { Api, ApiDependencies } from '../../dependencies.ts';
import { optionalNonZeroQuery } from '../../schemas/fields.ts';
import { envelope, failures, ofPaging, success } from '../../schemas/replies.ts';
import { readWebhook } from './read-webhook.ts';
import { deliverySchema, presentDelivery, webhookPath } from './webhook-schema.ts';

const mostDeliveries = 200;
/** With this limit a page of 200 deliveries with many attempts stays below a few MB. */
const listedReplyLength = 256;

const query = z.object({
  limit: optionalNonZeroQuery(z.coerce.number().int().min(1).max(2_000_000_000))
    .transform((asked) => Math.min(asked ?? 50, mostDeliveries))
    .describe(`Default 50; more than ${mostDeliveries} are cut to that`),
});

/** `GET /v1/webhooks/{endpoint_id}/deliveries`. */
export function listDeliveries(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'GET',
    url: '/v1/webhooks/:endpoint_id/deliveries',
    config: { access: anyUser('by_role') },
    schema: {
      operationId: 'listWebhookDeliveries',
      tags: ['Webhooks'],
      summary: 'List the newest deliveries of a webhook with their attempts',
      description: 'Newest first; 50 by default, 200 at most. Deliveries are kept for 30 days.',
      params: webhookPath,
      querystring: query,
      response: {
        200: envelope(z.object({ deliveries: z.array(deliverySchema), limit: z.int() }), 'The newest first'),
        ...failures(ofPaging, 'not_found'),
      },
    },
    handler: async (request) => {
      const em = deps.orm.em.fork();
      const { endpointId } = await readWebhook(em, request, request.params.endpoint_id);
      const { limit } = request.query;
      const found = await readDeliveries(em, endpointId, limit);
      return success({ deliveries: found.map((each) => presentDelivery(each, listedReplyLength)), limit });
    },
  });
}
