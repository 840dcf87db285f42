import { deleteWebhookEndpoint } from '../../../db/webhooks/webhook-endpoints.ts';
import { anyUser, scopeOf } from '../../access.ts';
import type { Api, ApiDependencies } from '../../dependencies.ts';
import { failures, messageEnvelope, ofMutations, successMessage } from '../../schemas/replies.ts';
import { webhookPath } from './webhook-schema.ts';

/** `DELETE /v1/webhooks/{endpoint_id}`. */
export function deleteWebhook(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'DELETE',
    url: '/v1/webhooks/:endpoint_id',
    config: { access: anyUser('by_role') },
    schema: {
      operationId: 'deleteWebhook',
      tags: ['Webhooks'],
      summary: 'Delete a webhook; its pending deliveries end',
      description: 'Deliveries that have not ended are stopped immediately.',
      params: webhookPath,
      response: { 200: messageEnvelope('It is deleted'), ...failures(ofMutations, 'not_found') },
    },
    handler: async (request) => {
      await deleteWebhookEndpoint(deps.orm.em.fork(), scopeOf(request), request.params.endpoint_id);
      return successMessage('The webhook is deleted');
    },
  });
}
