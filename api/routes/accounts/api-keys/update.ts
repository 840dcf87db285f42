import { z } from 'zod';
import { updateApiKey as changeApiKey } from '../../../../db/accounts/api-keys.ts';
import { checkApiKeyName } from '../../../../domain/names.ts';
import { anyUser, scopeOf } from '../../../access.ts';
import type { Api, ApiDependencies } from '../../../dependencies.ts';
import { bodyBytesWithDescription, description, nameOf, optional, optionalBody } from '../../../schemas/fields.ts';
import { envelope, failures, ofMutations, success } from '../../../schemas/replies.ts';
import { apiKeyPath, presentApiKey, updatedApiKeySchema } from './api-key-schema.ts';

const body = optionalBody(
  z.object({
    name: optional(nameOf(64)).describe("Unique among the owner's keys"),
    description: optional(description()),
  }),
);

/** `PUT /v1/api-keys/{key_id}`. */
export function updateApiKey(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'PUT',
    url: '/v1/api-keys/:key_id',
    config: { bodyBytes: bodyBytesWithDescription, access: anyUser('by_role') },
    schema: {
      operationId: 'updateApiKey',
      tags: ['API keys'],
      summary: 'Rename or describe an API key',
      description:
        'Changes the name and the description. Fields that are left out do not change; the key itself does not ' +
        'change.',
      params: apiKeyPath,
      body,
      response: {
        200: envelope(updatedApiKeySchema, 'The key'),
        ...failures(ofMutations, 'not_found', 'invalid_name', 'api_key_name_taken'),
      },
    },
    handler: async (request) => {
      const { name } = request.body;
      const key = await changeApiKey(deps.orm.em.fork(), scopeOf(request), request.params.key_id, {
        name: name === undefined ? undefined : checkApiKeyName(name.trim()),
        description: request.body.description,
      });
      return success(presentApiKey(key));
    },
  });
}
