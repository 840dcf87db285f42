import { z } from 'zod';
import { listSandboxViews } from '../../../../db/sandboxes/sandbox-reads.ts';
import { anyUser, scopeOf } from '../../../access.ts';
import type { Api, ApiDependencies } from '../../../dependencies.ts';
import { listingOf, paginationOf, paginationSchema, pagingQuery } from '../../../schemas/lists.ts';
import { envelope, failures, ofPaging, success } from '../../../schemas/replies.ts';
import { statusFilter } from '../../sandboxes/list-query.ts';
import { presentSandbox } from '../../sandboxes/present-sandbox.ts';
import { slimSandboxSchema } from '../../sandboxes/sandbox-schema.ts';
import { projectPath, readProject } from './project-schema.ts';

/** `GET /v1/projects/{project_id}/sandboxes`. */
export function listProjectSandboxes(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'GET',
    url: '/v1/projects/:project_id/sandboxes',
    config: { access: anyUser('by_role') },
    schema: {
      operationId: 'listProjectSandboxes',
      tags: ['Projects'],
      summary: "List a project's sandboxes, newest first",
      description: 'Returns a short form of each. `status` takes several values, separated by commas.',
      params: projectPath,
      querystring: z.object({ ...pagingQuery, status: statusFilter }),
      response: {
        200: envelope(
          z.object({ sandboxes: z.array(slimSandboxSchema), pagination: paginationSchema }),
          'A page of sandboxes',
        ),
        ...failures(ofPaging, 'not_found'),
      },
    },
    handler: async (request) => {
      const scope = scopeOf(request);
      const { project_id: projectId } = request.params;
      await readProject(deps, scope, projectId);
      const listing = listingOf(request.query, 50);
      const filter = { projectId, statuses: request.query.status };
      const { views, total } = await listSandboxViews(deps.orm.em.fork(), scope, filter, listing);
      const now = new Date();
      const sandboxes = views.map((view) => {
        const fields = presentSandbox(view, deps.settings, now);
        return { ...fields, id: fields.sandbox_id };
      });
      return success({ sandboxes, pagination: paginationOf(listing, total) });
    },
  });
}
