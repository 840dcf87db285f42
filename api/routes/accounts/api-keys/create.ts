import { z } from 'zod';
import type { ApiKey } from '../../../../db/accounts/api-key.entity.ts';
import { activeKeyLimit, findApiKeyView, createApiKey as makeApiKey } from '../../../../db/accounts/api-keys.ts';
import { findProfile } from '../../../../db/accounts/users.ts';
import { planHeldBy } from '../../../../db/billing/subscriptions.ts';
import { checkApiKeyName } from '../../../../domain/names.ts';
import { anyUser, callerOf, scopeOf } from '../../../access.ts';
import type { Api, ApiDependencies } from '../../../dependencies.ts';
import { createOnce, idempotencyHeaders } from '../../../plugins/idempotency.ts';
import { bodyBytesWithDescription, description, nameOf, presentPerson, withDefault } from '../../../schemas/fields.ts';
import { envelope, failures, ofIdempotency, ofMutations, success } from '../../../schemas/replies.ts';
import { createdApiKeySchema } from './api-key-schema.ts';

/** Characters of the secret in the create reply's prefix. Lists show more, so that keys can be distinguished. */
const shortPrefix = 8;

const body = z.object({
  name: nameOf(64).describe('Unique among your keys'),
  description: withDefault(description(), ''),
});

/** `POST /v1/api-keys`. */
export function createApiKey(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'POST',
    url: '/v1/api-keys',
    config: {
      bodyBytes: bodyBytesWithDescription,
      access: anyUser('own'),
      idempotency: { makes: 'apiKey', secrets: ['api_key'] },
    },
    schema: {
      operationId: 'createApiKey',
      tags: ['API keys'],
      summary: 'Create an API key; its secret is shown only once',
      description:
        'Only this reply has the key itself; the platform stores only its hash. Names are unique among your ' +
        'keys. A user ' +
        'may have as many active keys as the plan allows.',
      headers: idempotencyHeaders,
      body,
      response: {
        201: envelope(createdApiKeySchema, 'The key with its secret'),
        ...failures(ofMutations, ofIdempotency, 'invalid_name', 'api_key_limit_reached', 'api_key_name_taken'),
      },
    },
    handler: async (request, reply) => {
      const caller = callerOf(request);
      const em = deps.orm.em.fork();
      const planLimit = planHeldBy(caller, deps.plans).maxActiveApiKeys;
      const { key, secret } = await createOnce<{ key: ApiKey; secret?: string }, 'apiKey'>(request, 'apiKey', {
        // Only the secret's hash is stored, so the secret of an already created key cannot be shown again.
        find: async (keyId) => {
          const view = await findApiKeyView(em, scopeOf(request), keyId);
          return view && { key: view.key };
        },
        create: (keyId) => {
          const name = checkApiKeyName(request.body.name.trim());
          return makeApiKey(em, caller, { keyId, name, description: request.body.description }, planLimit);
        },
      });
      const { user } = await findProfile(em, caller.userId);
      return reply.code(201).send(
        success({
          key_id: key.keyId,
          name: key.name,
          description: key.description,
          ...(secret !== undefined && { api_key: secret }),
          prefix: key.prefix.slice(0, shortPrefix),
          is_active: key.isActive,
          created_at: key.createdAt,
          max_active_api_keys: await activeKeyLimit(em, scopeOf(request), caller.userId, planLimit),
          owner: presentPerson(user),
        }),
      );
    },
  });
}
