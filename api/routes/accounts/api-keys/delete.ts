import { deleteApiKey as removeApiKey } from '../../../../db/accounts/api-keys.ts';
import { anyUser, scopeOf } from '../../../access.ts';
import type { Api, ApiDependencies } from '../../../dependencies.ts';
import { failures, messageEnvelope, ofMutations, successMessage } from '../../../schemas/replies.ts';
import { apiKeyPath } from './api-key-schema.ts';

/** `DELETE /v1/api-keys/{key_id}`. */
export function deleteApiKey(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'DELETE',
    url: '/v1/api-keys/:key_id',
    config: { access: anyUser('by_role') },
    schema: {
      operationId: 'deleteApiKey',
      tags: ['API keys'],
      summary: 'Delete an API key',
      description:
        'The key stops working at the next request, and exec streams that were opened with it end within two ' +
        'seconds.',
      params: apiKeyPath,
      response: { 200: messageEnvelope('It is deleted'), ...failures(ofMutations, 'not_found') },
    },
    handler: async (request) => {
      await removeApiKey(deps.orm.em.fork(), scopeOf(request), request.params.key_id);
      return successMessage('The API key is deleted');
    },
  });
}
