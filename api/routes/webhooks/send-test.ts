import { addTestDelivery, findDelivery } from '../../../db/webhooks/webhook-deliveries.ts';
import { keptReplyBytes } from '../../../domain/webhooks/delivery.ts';
import { anyUser } from '../../access.ts';
import type { Api, ApiDependencies } from '../../dependencies.ts';
import { createOnce, idempotencyHeaders } from '../../plugins/idempotency.ts';
import { envelope, failures, ofIdempotency, ofMutations, success } from '../../schemas/replies.ts';
import { readWebhook } from './read-webhook.ts';
import { deliverySchema, presentDelivery, webhookPath } from './webhook-schema.ts';

/** `POST /v1/webhooks/{endpoint_id}/test`. */
export function sendTestEvent(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'POST',
    url: '/v1/webhooks/:endpoint_id/test',
    config: { access: anyUser('by_role'), idempotency: { makes: 'webhookDelivery' } },
    schema: {
      operationId: 'sendTestEvent',
      tags: ['Webhooks'],
      summary: 'Send an event of the type `webhook.test` to this endpoint',
      description: 'The event is delivered like any other; follow it with `GET …/deliveries/{delivery_id}`.',
      headers: idempotencyHeaders,
      params: webhookPath,
      response: {
        202: envelope(deliverySchema, 'The event will be sent soon'),
        ...failures(ofMutations, ofIdempotency, 'not_found', 'webhook_not_active'),
      },
    },
    handler: async (request, reply) => {
      const em = deps.orm.em.fork();
      const endpoint = await readWebhook(em, request, request.params.endpoint_id);
      const delivery = await createOnce(request, 'webhookDelivery', {
        find: (deliveryId) => findDelivery(em, endpoint.endpointId, deliveryId),
        create: (deliveryId) => addTestDelivery(em, endpoint, deliveryId),
      });
      return reply.code(202).send(success(presentDelivery(delivery, keptReplyBytes)));
    },
  });
}
