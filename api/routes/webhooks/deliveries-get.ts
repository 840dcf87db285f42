import { findDelivery } from '../../../db/webhooks/webhook-deliveries.ts';
import { notFound } from '../../../domain/errors.ts';
import { keptReplyBytes } from '../../../domain/webhooks/delivery.ts';
import { anyUser } from '../../access.ts';
import type { Api, ApiDependencies } from '../../dependencies.ts';
import { envelope, failures, success } from '../../schemas/replies.ts';
import { readWebhook } from './read-webhook.ts';
import { deliveryPath, deliverySchema, presentDelivery } from './webhook-schema.ts';

/** `GET /v1/webhooks/{endpoint_id}/deliveries/{delivery_id}`. */
export function getDelivery(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'GET',
    url: '/v1/webhooks/:endpoint_id/deliveries/:delivery_id',
    config: { access: anyUser('by_role') },
    schema: {
      operationId: 'getWebhookDelivery',
      tags: ['Webhooks'],
      summary: 'Read a delivery with its attempts and the replies of the endpoint',
      description: "Shows the time and the duration of each attempt, and the beginning of the endpoint's reply.",
      params: deliveryPath,
      response: { 200: envelope(deliverySchema, 'The delivery'), ...failures('not_found') },
    },
    handler: async (request) => {
      const em = deps.orm.em.fork();
      const { endpointId } = await readWebhook(em, request, request.params.endpoint_id);
      const delivery = await findDelivery(em, endpointId, request.params.delivery_id);
      if (!delivery) throw notFound('Delivery');
      return success(presentDelivery(delivery, keptReplyBytes));
    },
  });
}
