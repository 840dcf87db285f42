import { z } from 'zod';
import { setApiKeyActive } from '../../../../db/accounts/api-keys.ts';
import { anyUser, planOf, scopeOf } from '../../../access.ts';
import type { Api, ApiDependencies } from '../../../dependencies.ts';
import { envelope, failures, ofMutations, success } from '../../../schemas/replies.ts';
import { apiKeyPath } from './api-key-schema.ts';

/** `PUT /v1/api-keys/{key_id}/status`: a disabled key stops working with the next request. */
export function setApiKeyStatus(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'PUT',
    url: '/v1/api-keys/:key_id/status',
    config: { access: anyUser('by_role') },
    schema: {
      operationId: 'setApiKeyStatus',
      tags: ['API keys'],
      summary: 'Enable or disable an API key',
      description:
        'A disabled key stops working at the next request, and exec streams that were opened with it end within two ' +
        'seconds. It can be enabled again as long as the plan allows one more active key.',
      params: apiKeyPath,
      body: z.object({ is_active: z.boolean() }),
      response: {
        200: envelope(z.object({ message: z.string(), is_active: z.boolean() }), 'Its status'),
        ...failures(ofMutations, 'not_found', 'api_key_limit_reached'),
      },
    },
    handler: async (request) => {
      const { is_active: isActive } = request.body;
      const planLimit = planOf(request, deps.plans).maxActiveApiKeys;
      await setApiKeyActive(deps.orm.em.fork(), scopeOf(request), request.params.key_id, isActive, planLimit);
      return success({ message: `The API key is ${isActive ? 'enabled' : 'disabled'}`, is_active: isActive });
    },
  });
}
