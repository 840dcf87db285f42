import { z } from 'zod';
import { listSandboxViews } from '../../../db/sandboxes/sandbox-reads.ts';
import { anyUser, scopeOf } from '../../access.ts';
import type { Api, ApiDependencies } from '../../dependencies.ts';
import { listingOf, ownerFilter, paginationOf, paginationSchema } from '../../schemas/lists.ts';
import { envelope, failures, ofPaging, success } from '../../schemas/replies.ts';
import { listQuery } from './list-query.ts';
import { presentSandbox } from './present-sandbox.ts';
import { sandboxSummarySchema } from './sandbox-schema.ts';

/** `GET /v1/sandboxes`. A user sees their own sandboxes, the account root all sandboxes of the account. */
export function listSandboxes(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'GET',
    url: '/v1/sandboxes',
    config: { access: anyUser('by_role') },
    schema: {
      operationId: 'listSandboxes',
      tags: ['Sandboxes'],
      summary: 'List sandboxes, newest first',
      description: 'Users see their own sandboxes, account roots those of the account. Filters can be combined.',
      querystring: listQuery,
      response: {
        200: envelope(
          z.object({ sandboxes: z.array(sandboxSummarySchema), pagination: paginationSchema }),
          'A page of sandboxes',
        ),
        ...failures(ofPaging, 'root_required', 'admin_required', 'not_found'),
      },
    },
    handler: async (request) => {
      const scope = scopeOf(request);
      const { query } = request;
      const listing = listingOf(query, 50);
      const filter = {
        statuses: query.status,
        projectId: query.project_id,
        ownerUserId: ownerFilter(scope, query.owner_user_id),
        search: query.search,
        metadata: query.metadata,
      };
      const { views, total } = await listSandboxViews(deps.orm.em.fork(), scope, filter, listing);
      const now = new Date();
      const sandboxes = views.map((view) => {
        const { owner, ...fields } = presentSandbox(view, deps.settings, now);
        return scope.rows === 'user' ? fields : { ...fields, owner };
      });
      return success({ sandboxes, pagination: paginationOf(listing, total) });
    },
  });
}
