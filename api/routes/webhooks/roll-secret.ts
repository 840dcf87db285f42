import { z } from 'zod';
import { rollWebhookSecret } from '../../../db/repositories/webhook-endpoints.ts';
import { anyUser, callerOf, scopeOf } from '../../access.ts';
import type { Api, ApiDependencies } from '../../dependencies.ts';
import { envelope, success } from '../../schemas/envelope.ts';
import { failures, ofMutations } from '../../schemas/failures.ts';
import { optionalBody, optionalNonZero } from '../../schemas/fields.ts';
import { secretField } from './webhook-body.ts';
import { presentWebhook, webhookPath, webhookSchema } from './webhook-schema.ts';

const body = optionalBody(
  z.object({ secret: optionalNonZero(secretField).describe('The next secret; required where the endpoint has one') }),
);

/** `POST /v1/webhooks/{endpoint_id}/roll-secret`. */
export function rollSecret(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'POST',
    url: '/v1/webhooks/:endpoint_id/roll-secret',
    config: { access: anyUser('by_role') },
    schema: {
      operationId: 'rollWebhookSecret',
      tags: ['Webhooks'],
      summary: 'Sign with the next key and secret; for 24 hours with the present ones as well',
      description:
        'Deliveries are signed with the new and with the former key and secret for 24 hours, so that a receiver can ' +
        'change over without losing any.',
      params: webhookPath,
      body,
      response: { 200: envelope(webhookSchema, 'The endpoint'), ...failures(ofMutations, 'not_found') },
    },
    handler: async (request) => {
      const { endpoint_id: endpointId } = request.params;
      const { secret } = request.body;
      const endpoint = await rollWebhookSecret(deps.orm.em.fork(), scopeOf(request), endpointId, {
        sealedSecret: secret ? deps.webhookKeys.seal(endpointId, secret) : null,
        publicKey: (keyNumber) => deps.webhookKeys.publicKey(endpointId, keyNumber),
      });
      return success(presentWebhook(endpoint, callerOf(request)));
    },
  });
}
