import { findDefaultProjectId } from '../../../../db/accounts/projects.ts';
import { moveSandboxToProject } from '../../../../db/sandboxes/sandbox-projects.ts';
import { notFound } from '../../../../domain/errors.ts';
import { anyUser, scopeOf } from '../../../access.ts';
import type { Api, ApiDependencies } from '../../../dependencies.ts';
import { envelope, failures, ofMutations, success } from '../../../schemas/replies.ts';
import { sandboxOf } from '../../sandboxes/read-sandbox.ts';
import { readProject } from './project-schema.ts';
import { moveOf, projectSandboxPath } from './sandbox-move.ts';

/**
 * `POST /v1/projects/{project_id}/sandboxes/{sandbox_id}/evict`: moves a running sandbox from the project into the
 * default project of the sandbox's user. That user is the caller, unless an account root evicts the sandbox.
 */
export function evictSandboxFromProject(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'POST',
    url: '/v1/projects/:project_id/sandboxes/:sandbox_id/evict',
    config: { access: anyUser('by_role') },
    schema: {
      operationId: 'evictSandboxFromProject',
      tags: ['Projects'],
      summary: "Put a running sandbox back into its user's default project",
      description: 'The sandbox moves to the default project of its user. It must be in the project in the path.',
      params: projectSandboxPath,
      response: {
        200: envelope(moveOf('evicted_to_default_project'), 'The sandbox is now in the default project'),
        ...failures(ofMutations, 'not_found', 'sandbox_not_running'),
      },
    },
    handler: async (request) => {
      const scope = scopeOf(request);
      const { project_id: projectId, sandbox_id: sandboxId } = request.params;
      const project = await readProject(deps, scope, projectId);
      const sandbox = await sandboxOf(deps, request, sandboxId);
      if (sandbox.projectId !== project.project_id) throw notFound('Sandbox in this project');
      const em = deps.orm.em.fork();
      const home = await findDefaultProjectId(em, sandbox.ownerUserId);
      const previous = await moveSandboxToProject(em, scope, sandboxId, home);
      return success(
        {
          sandbox_id: sandboxId,
          project_id: home,
          previous_project: previous,
          action: 'evicted_to_default_project' as const,
        },
        'The sandbox is now in the default project',
      );
    },
  });
}
