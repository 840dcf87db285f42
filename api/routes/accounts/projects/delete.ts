import { z } from 'zod';
import { deleteProject as removeProject } from '../../../../db/accounts/projects.ts';
import { anyUser, scopeOf } from '../../../access.ts';
import type { Api, ApiDependencies } from '../../../dependencies.ts';
import { envelope, failures, ofMutations, success } from '../../../schemas/replies.ts';
import { projectPath } from './project-schema.ts';

/** `DELETE /v1/projects/{project_id}`: deletes an empty project that is not the default. */
export function deleteProject(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'DELETE',
    url: '/v1/projects/:project_id',
    config: { access: anyUser('by_role') },
    schema: {
      operationId: 'deleteProject',
      tags: ['Projects'],
      summary: 'Delete an empty project',
      description: 'A project with sandboxes, including ended ones, and the default project cannot be deleted.',
      params: projectPath,
      response: {
        200: envelope(z.object({ project_id: z.string(), deleted: z.literal(true) }), 'It is deleted'),
        ...failures(ofMutations, 'not_found', 'project_not_empty', 'only_default_project'),
      },
    },
    handler: async (request) => {
      const { project_id: projectId } = request.params;
      await removeProject(deps.orm.em.fork(), scopeOf(request), projectId);
      return success({ project_id: projectId, deleted: true as const }, 'The project is deleted');
    },
  });
}
