import { moveSandboxToProject } from '../../../../db/sandboxes/sandbox-projects.ts';
import { anyUser, scopeOf } from '../../../access.ts';
import type { Api, ApiDependencies } from '../../../dependencies.ts';
import { envelope, failures, ofMutations, success } from '../../../schemas/replies.ts';
import { moveOf, projectSandboxPath } from './sandbox-move.ts';

/** `POST /v1/projects/{project_id}/sandboxes/{sandbox_id}/add`: for a running sandbox. */
export function addSandboxToProject(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'POST',
    url: '/v1/projects/:project_id/sandboxes/:sandbox_id/add',
    config: { access: anyUser('by_role') },
    schema: {
      operationId: 'addSandboxToProject',
      tags: ['Projects'],
      summary: 'Put a running sandbox into a project',
      description:
        "The project must belong to the sandbox's user. Usage belongs to the project that the sandbox was in at the " +
        'time.',
      params: projectSandboxPath,
      response: {
        200: envelope(moveOf('added_to_project'), 'The sandbox is now in the project'),
        ...failures(ofMutations, 'not_found', 'project_of_another_user', 'sandbox_not_running'),
      },
    },
    handler: async (request) => {
      const { project_id: projectId, sandbox_id: sandboxId } = request.params;
      const previous = await moveSandboxToProject(deps.orm.em.fork(), scopeOf(request), sandboxId, projectId);
      return success(
        {
          sandbox_id: sandboxId,
          project_id: projectId,
          previous_project: previous,
          action: 'added_to_project' as const,
        },
        'The sandbox is now in the project',
      );
    },
  });
}
