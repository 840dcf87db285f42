import { z } from 'zod';
import { rollWebhookSecret } from '../../../db/webhooks/webhook-endpoints.ts';
import { anyUser, callerOf, scopeOf } from '../../access.ts';
import type { Api, ApiDependencies } from '../../dependencies.ts';
import { idempotencyHeaders } from '../../plugins/idempotency.ts';
import { optionalBody, optionalNonZero } from '../../schemas/fields.ts';
import { envelope, failures, ofIdempotency, ofMutations, success } from '../../schemas/replies.ts';
import { secretField } from './webhook-body.ts';
import { presentWebhook, webhookPath, webhookSchema } from './webhook-schema.ts';

const body = optionalBody(
  z.object({ secret: optionalNonZero(secretField).describe('The new secret; required if the webhook has one') }),
);

/** `POST /v1/webhooks/{endpoint_id}/roll-secret`. */
export function rollSecret(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'POST',
    url: '/v1/webhooks/:endpoint_id/roll-secret',
    config: { access: anyUser('by_role'), idempotency: { makes: 'request' } },
    schema: {
      operationId: 'rollWebhookSecret',
      tags: ['Webhooks'],
      summary: 'Replace the key and secret; the old ones also sign for 24 hours',
      description:
        'For 24 hours, deliveries are signed with the new and the old key and secret, so that a receiver can ' +
        'switch without losing events.',
      headers: idempotencyHeaders,
      params: webhookPath,
      body,
      response: { 200: envelope(webhookSchema, 'The endpoint'), ...failures(ofMutations, ofIdempotency, 'not_found') },
    },
    handler: async (request) => {
      const { endpoint_id: endpointId } = request.params;
      const { secret } = request.body;
      const { secretKeyNumber } = deps.webhookKeys;
      const endpoint = await rollWebhookSecret(deps.orm.em.fork(), scopeOf(request), endpointId, {
        sealedSecret: secret ? deps.webhookKeys.seal(endpointId, secret) : null,
        secretKeyNumber,
        publicKey: (keyNumber) => deps.webhookKeys.publicKey(endpointId, keyNumber, secretKeyNumber),
      });
      return success(presentWebhook(endpoint, callerOf(request)));
    },
  });
}
