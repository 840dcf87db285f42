import { redeliver } from '../../../db/webhooks/webhook-deliveries.ts';
import { keptReplyBytes } from '../../../domain/webhooks/delivery.ts';
import { anyUser } from '../../access.ts';
import type { Api, ApiDependencies } from '../../dependencies.ts';
import { idempotencyHeaders } from '../../plugins/idempotency.ts';
import { envelope, failures, ofIdempotency, ofMutations, success } from '../../schemas/replies.ts';
import { readWebhook } from './read-webhook.ts';
import { deliveryPath, deliverySchema, presentDelivery } from './webhook-schema.ts';

/** `POST /v1/webhooks/{endpoint_id}/deliveries/{delivery_id}/redeliver`. */
export function redeliverDelivery(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'POST',
    url: '/v1/webhooks/:endpoint_id/deliveries/:delivery_id/redeliver',
    config: { access: anyUser('by_role'), idempotency: { makes: 'request' } },
    schema: {
      operationId: 'redeliverWebhookDelivery',
      tags: ['Webhooks'],
      summary: 'Send the event of an ended delivery again, with retries as for a new one',
      description:
        'The event keeps its id, so that a receiver can recognize it. The delivery keeps its id and its attempts, and ' +
        '`max_attempts` grows by the attempts of a new delivery.',
      headers: idempotencyHeaders,
      params: deliveryPath,
      response: {
        202: envelope(deliverySchema, 'The event will be sent soon'),
        ...failures(ofMutations, ofIdempotency, 'not_found', 'webhook_not_active', 'delivery_in_progress'),
      },
    },
    handler: async (request, reply) => {
      const em = deps.orm.em.fork();
      const endpoint = await readWebhook(em, request, request.params.endpoint_id);
      const delivery = await redeliver(em, endpoint, request.params.delivery_id);
      return reply.code(202).send(success(presentDelivery(delivery, keptReplyBytes)));
    },
  });
}
