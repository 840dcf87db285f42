import { findApiKeyView } from '../../../../db/accounts/api-keys.ts';
import { notFound } from '../../../../domain/errors.ts';
import { anyUser, scopeOf } from '../../../access.ts';
import type { Api, ApiDependencies } from '../../../dependencies.ts';
import { presentPerson } from '../../../schemas/fields.ts';
import { envelope, failures, success } from '../../../schemas/replies.ts';
import { apiKeyPath, apiKeySchema, presentApiKey } from './api-key-schema.ts';

/** `GET /v1/api-keys/{key_id}`: without the secret. */
export function getApiKey(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'GET',
    url: '/v1/api-keys/:key_id',
    config: { access: anyUser('by_role') },
    schema: {
      operationId: 'getApiKey',
      tags: ['API keys'],
      summary: 'Read an API key',
      description: 'Returns name, prefix and last use. The key itself is never shown again.',
      params: apiKeyPath,
      response: { 200: envelope(apiKeySchema, 'The key'), ...failures('not_found') },
    },
    handler: async (request) => {
      const view = await findApiKeyView(deps.orm.em.fork(), scopeOf(request), request.params.key_id);
      if (!view) throw notFound('API key');
      return success({ ...presentApiKey(view.key), owner: presentPerson(view.owner) });
    },
  });
}
