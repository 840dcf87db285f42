import { anyUser, callerOf } from '../../access.ts';
import type { Api, ApiDependencies } from '../../dependencies.ts';
import { envelope, failures, success } from '../../schemas/replies.ts';
import { readWebhook } from './read-webhook.ts';
import { presentWebhook, webhookPath, webhookSchema } from './webhook-schema.ts';

/** `GET /v1/webhooks/{endpoint_id}`. */
export function getWebhook(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'GET',
    url: '/v1/webhooks/:endpoint_id',
    config: { access: anyUser('by_role') },
    schema: {
      operationId: 'getWebhook',
      tags: ['Webhooks'],
      summary: 'Read a webhook',
      description:
        'Returns the webhook with the counts of its deliveries and the reason if it was disabled. The secret ' +
        'is never shown.',
      params: webhookPath,
      response: { 200: envelope(webhookSchema, 'The endpoint'), ...failures('not_found') },
    },
    handler: async (request) => {
      const endpoint = await readWebhook(deps.orm.em.fork(), request, request.params.endpoint_id);
      return success(presentWebhook(endpoint, callerOf(request)));
    },
  });
}
