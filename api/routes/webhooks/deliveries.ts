import { z } from 'zod';
import {
  addTestDelivery,
  findDelivery,
  listDeliveries as readDeliveries,
  redeliver,
} from '../../../db/webhooks/webhook-deliveries.ts';
import { notFound } from '../../../domain/errors.ts';
import { keptReplyBytes } from '../../../domain/webhooks/delivery.ts';
import { anyUser } from '../../access.ts';
import type { Api, ApiDependencies } from '../../dependencies.ts';
import { createOnce, idempotencyHeaders } from '../../plugins/idempotency.ts';
import { cutLimit } from '../../schemas/lists.ts';
import { envelope, failures, ofIdempotency, ofMutations, ofPaging, success } from '../../schemas/replies.ts';
import { deliveryPath, deliverySchema, presentDelivery, readWebhook, webhookPath } from './schema.ts';

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

const maxDeliveries = 200;
/** With this limit a page of 200 deliveries with many attempts stays below a few MB. */
const listedReplyLength = 256;

const query = z.object({
  limit: cutLimit(50, maxDeliveries),
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
