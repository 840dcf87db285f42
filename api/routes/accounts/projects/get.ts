import { anyUser, scopeOf } from '../../../access.ts';
import type { Api, ApiDependencies } from '../../../dependencies.ts';
import { envelope, failures, success } from '../../../schemas/replies.ts';
import { projectPath, projectSchema, readProject } from './project-schema.ts';

/** `GET /v1/projects/{project_id}`. */
export function getProject(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'GET',
    url: '/v1/projects/:project_id',
    config: { access: anyUser('by_role') },
    schema: {
      operationId: 'getProject',
      tags: ['Projects'],
      summary: 'Read a project',
      description: "`sandbox_count` is the number of sandboxes in the project's list.",
      params: projectPath,
      response: { 200: envelope(projectSchema, 'The project'), ...failures('not_found') },
    },
    handler: async (request) => success(await readProject(deps, scopeOf(request), request.params.project_id)),
  });
}
