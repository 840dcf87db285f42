import { z } from 'zod';
import { activeKeyLimit, apiKeySortColumns, listApiKeyViews } from '../../../../db/accounts/api-keys.ts';
import { anyUser, callerOf, planOf, scopeOf } from '../../../access.ts';
import type { Api, ApiDependencies } from '../../../dependencies.ts';
import { givenId, optionalQuery, presentPerson } from '../../../schemas/fields.ts';
import {
  accountQuery,
  listingOf,
  ownerFilter,
  paginationOf,
  paginationSchema,
  pagingQuery,
  sortingQuery,
} from '../../../schemas/lists.ts';
import { envelope, failures, ofPaging, success } from '../../../schemas/replies.ts';
import { apiKeySchema, presentApiKey } from './api-key-schema.ts';

const query = z.object({
  ...pagingQuery,
  ...accountQuery,
  user_id: optionalQuery(givenId('user', z.string().max(64))).describe('Account root only'),
  status: optionalQuery(z.enum(['active', 'inactive'])),
  search: optionalQuery(z.string().max(256)).describe('Part of the name'),
  ...sortingQuery(apiKeySortColumns),
});

/** `GET /v1/api-keys`. A user sees their own keys, the account root all keys of the account. */
export function listApiKeys(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'GET',
    url: '/v1/api-keys',
    config: { access: anyUser('by_role') },
    schema: {
      operationId: 'listApiKeys',
      tags: ['API keys'],
      summary: 'List API keys, newest first',
      description:
        'Users see their own keys, root users those of the account. `user_id`, `status` and `search` narrow the list.',
      querystring: query,
      response: {
        200: envelope(
          z.object({
            api_keys: z.array(apiKeySchema),
            pagination: paginationSchema,
            max_active_api_keys: z
              .int()
              .describe('The limit of the user whose keys are listed; without `user_id`, of the caller'),
          }),
          'A page of keys, without their secrets',
        ),
        ...failures(ofPaging, 'root_required', 'admin_required', 'not_found'),
      },
    },
    handler: async (request) => {
      const caller = callerOf(request);
      const scope = scopeOf(request);
      const em = deps.orm.em.fork();
      const listing = listingOf(request.query, 50);
      const userId = ownerFilter(scope, request.query.user_id);
      const { status } = request.query;
      const filter = { userId, isActive: status && status === 'active', search: request.query.search };
      const { views, total } = await listApiKeyViews(em, scope, filter, listing);
      const planLimit = planOf(request, deps.plans).maxActiveApiKeys;
      return success({
        api_keys: views.map(({ key, owner }) => ({ ...presentApiKey(key), owner: presentPerson(owner) })),
        pagination: paginationOf(listing, total),
        max_active_api_keys: await activeKeyLimit(em, scope, userId ?? caller.userId, planLimit),
      });
    },
  });
}
