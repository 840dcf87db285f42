import { z } from 'zod';
import { moveSandboxToProject } from '../../../db/sandboxes/sandbox-projects.ts';
import { anyUser, requireScope } from '../../access.ts';
import type { Api, ApiDependencies } from '../../dependencies.ts';
import { givenId } from '../../schemas/fields.ts';
import { failures, messageEnvelope, ofMutations, successMessage } from '../../schemas/replies.ts';
import { sandboxPath } from './reply.ts';

/** `POST /v1/sandboxes/{sandbox_id}/switch-project`: for a running sandbox. */
export function switchSandboxProject(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'POST',
    url: '/v1/sandboxes/:sandbox_id/switch-project',
    config: { access: anyUser('by_role') },
    schema: {
      operationId: 'switchSandboxProject',
      tags: ['Sandboxes'],
      summary: 'Put a running sandbox into another project',
      description: 'Both projects must belong to the sandbox’s user.',
      params: sandboxPath,
      body: z.object({ project_id: givenId('project', z.string().max(64)) }),
      response: {
        200: messageEnvelope('The sandbox is now in that project'),
        ...failures(ofMutations, 'not_found', 'project_of_another_user', 'sandbox_not_running'),
      },
    },
    handler: async (request) => {
      const { sandbox_id: sandboxId } = request.params;
      const { project_id: projectId } = request.body;
      await moveSandboxToProject(deps.orm.em.fork(), requireScope(request), sandboxId, projectId);
      return successMessage(`The sandbox is in project ${projectId} now`);
    },
  });
}
