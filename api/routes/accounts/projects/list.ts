import { z } from 'zod';
import { listProjectViews } from '../../../../db/accounts/projects.ts';
import { anyUser, scopeOf } from '../../../access.ts';
import type { Api, ApiDependencies } from '../../../dependencies.ts';
import { givenId, optionalQuery } from '../../../schemas/fields.ts';
import {
  accountQuery,
  listingOf,
  ownerFilter,
  paginationOf,
  paginationSchema,
  pagingQuery,
} from '../../../schemas/lists.ts';
import { envelope, failures, ofPaging, success } from '../../../schemas/replies.ts';
import { presentProject, projectSchema } from './project-schema.ts';

/** `GET /v1/projects`. A user sees their own projects, the account root all projects of the account. */
export function listProjects(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'GET',
    url: '/v1/projects',
    config: { access: anyUser('by_role') },
    schema: {
      operationId: 'listProjects',
      tags: ['Projects'],
      summary: 'List projects, newest first',
      description: 'Users see their own projects, root users those of the account.',
      querystring: z.object({
        ...pagingQuery,
        ...accountQuery,
        owner_user_id: optionalQuery(givenId('user', z.string().max(64))).describe('Account root only'),
      }),
      response: {
        200: envelope(
          z.object({ projects: z.array(projectSchema), pagination: paginationSchema }),
          'A page of projects',
        ),
        ...failures(ofPaging, 'root_required', 'admin_required', 'not_found'),
      },
    },
    handler: async (request) => {
      const scope = scopeOf(request);
      const listing = listingOf(request.query, 50);
      const filter = { ownerUserId: ownerFilter(scope, request.query.owner_user_id) };
      const { views, total } = await listProjectViews(deps.orm.em.fork(), scope, filter, listing);
      return success({
        projects: views.map((view) => presentProject(view, scope)),
        pagination: paginationOf(listing, total),
      });
    },
  });
}
