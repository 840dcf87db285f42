import { z } from 'zod';
import { listUsers } from '../../../../db/accounts/user-management.ts';
import { accountRoot, scopeOf } from '../../../access.ts';
import type { Api, ApiDependencies } from '../../../dependencies.ts';
import { optionalQuery } from '../../../schemas/fields.ts';
import { accountQuery, listingOf, paginationOf, paginationSchema, pagingQuery } from '../../../schemas/lists.ts';
import { envelope, failures, ofPaging, success } from '../../../schemas/replies.ts';
import { presentUserItem, userItemSchema } from './user-schema.ts';

const query = z.object({ ...pagingQuery, ...accountQuery, status: optionalQuery(z.enum(['enabled', 'disabled'])) });

/** `GET /v1/user-management/users`. */
export function listAccountUsers(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'GET',
    url: '/v1/user-management/users',
    config: { access: accountRoot('account') },
    schema: {
      operationId: 'listUsers',
      tags: ['Users'],
      summary: 'List the users of the account, newest first',
      description: '`status` filters the list.',
      querystring: query,
      response: {
        200: envelope(z.object({ users: z.array(userItemSchema), pagination: paginationSchema }), 'A page of users'),
        ...failures(ofPaging, 'root_required', 'admin_required', 'not_found'),
      },
    },
    handler: async (request) => {
      const listing = listingOf(request.query, 50);
      const { status } = request.query;
      const { users, total } = await listUsers(deps.orm.em.fork(), scopeOf(request), { status }, listing);
      return success({ users: users.map(presentUserItem), pagination: paginationOf(listing, total) });
    },
  });
}
