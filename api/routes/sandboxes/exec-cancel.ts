import { z } from 'zod';
import { anyUser } from '../../access.ts';
import type { Api, ApiDependencies } from '../../dependencies.ts';
import { failures, ofMutations } from '../../schemas/replies.ts';
import { askAgent, ofAgentCalls } from './exec-agent.ts';
import { sandboxOf } from './read-sandbox.ts';
import { sandboxPath } from './sandbox-path.ts';

/**
 * `DELETE /v1/sandboxes/{sandbox_id}/exec`: kills the command and its processes. Without the envelope. Every caller who
 * may end the sandbox may also end its command.
 */
export function cancelExec(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'DELETE',
    url: '/v1/sandboxes/:sandbox_id/exec',
    config: { access: anyUser('by_role') },
    schema: {
      operationId: 'cancelExec',
      tags: ['Sandboxes'],
      summary: 'Cancel the command that runs in a sandbox',
      description: 'Kills the command and its processes; replies when it has ended.',
      params: sandboxPath,
      response: {
        200: z.object({ cancelled: z.literal(true) }).describe('The command has ended; another one can start'),
        ...failures(ofMutations, ofAgentCalls, 'exec_not_found'),
      },
    },
    handler: async (request) => {
      const sandbox = await sandboxOf(deps, request, request.params.sandbox_id);
      await askAgent(deps, sandbox, (place) => deps.sandboxAgents.cancelRun(place));
      return { cancelled: true as const };
    },
  });
}
