import { z } from 'zod';
import { createWebhookEndpoint, findWebhookEndpoint } from '../../../db/webhooks/webhook-endpoints.ts';
import { anyUser, callerOf, scopeOf } from '../../access.ts';
import type { Api, ApiDependencies } from '../../dependencies.ts';
import { createOnce, idempotencyHeaders } from '../../plugins/idempotency.ts';
import { bodyBytesWithDescription, description, withDefault } from '../../schemas/fields.ts';
import { envelope, failures, ofIdempotency, ofMutations, success } from '../../schemas/replies.ts';
import { checkSubscription, checkUrl, eventTypesField, settingsFields, urlField } from './webhook-body.ts';
import { presentWebhook, webhookSchema } from './webhook-schema.ts';

const body = z.object({
  url: urlField,
  event_types: eventTypesField,
  description: withDefault(description(), ''),
  ...settingsFields,
});

/** `POST /v1/webhooks`. */
export function createWebhook(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'POST',
    url: '/v1/webhooks',
    config: {
      bodyBytes: bodyBytesWithDescription,
      access: anyUser('by_role'),
      idempotency: { makes: 'webhookEndpoint' },
    },
    schema: {
      operationId: 'createWebhook',
      tags: ['Webhooks'],
      summary: 'Create a webhook: send events to a URL',
      description:
        'Events of these types are sent to the URL by POST, signed according to Standard Webhooks: with the ' +
        'key in `public_key`, and ' +
        'with `secret` if you give one. The scope `account` gets events of all users of the account and is for ' +
        'root users.',
      headers: idempotencyHeaders,
      body,
      response: {
        201: envelope(webhookSchema, 'The endpoint'),
        ...failures(ofMutations, ofIdempotency, ...refusals),
      },
    },
    handler: async (request, reply) => {
      const caller = callerOf(request);
      const { url, event_types: wanted, scope: wantedScope, secret } = request.body;
      checkUrl(url, deps.settings.PLATFORM_OUTBOUND_RANGES);
      const { eventTypes, scope } = checkSubscription(caller.isRootUser, { eventTypes: wanted, scope: wantedScope });
      const em = deps.orm.em.fork();
      const { secretKeyNumber } = deps.webhookKeys;
      const endpoint = await createOnce(request, 'webhookEndpoint', {
        find: (endpointId) => findWebhookEndpoint(em, scopeOf(request), endpointId),
        create: (endpointId) =>
          createWebhookEndpoint(em, {
            endpointId,
            accountId: caller.accountId,
            userId: scope === 'account' ? null : caller.userId,
            url,
            eventTypes,
            description: request.body.description,
            timeoutSeconds: request.body.timeout_seconds ?? 30,
            maxRetries: request.body.max_retries ?? 3,
            secretKeyNumber,
            publicKey: deps.webhookKeys.publicKey(endpointId, 1, secretKeyNumber),
            sealedSecret: secret ? deps.webhookKeys.seal(endpointId, secret) : null,
          }),
      });
      return reply.code(201).send(success(presentWebhook(endpoint, caller)));
    },
  });
}

const refusals = ['invalid_webhook_url', 'unsupported_event_type', 'webhook_limit_reached', 'root_required'] as const;
