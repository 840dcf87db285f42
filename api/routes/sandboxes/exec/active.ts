import { z } from 'zod';
import { requireCredentialId } from '../../../../db/accounts/identities.ts';
import { anyUser, requireCaller } from '../../../access.ts';
import type { Api, ApiDependencies } from '../../../dependencies.ts';
import { failures, ofMutations } from '../../../schemas/replies.ts';
import { readSandboxRow, sandboxPath } from '../reply.ts';
import { askAgent, executionTime, ofAgentCalls } from './agents.ts';
import { streamPath } from './stream.ts';

const activeExec = z.discriminatedUnion('active', [
  z.object({ active: z.literal(false) }),
  z.object({
    active: z.literal(true),
    stream_path: z.string(),
    command: z.string(),
    cwd: z.string(),
    started_at: executionTime,
    deadline: executionTime,
  }),
]);

/** `GET /v1/sandboxes/{sandbox_id}/exec/active`: the command that the caller started. Without the envelope. */
export function getActiveExec(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'GET',
    url: '/v1/sandboxes/:sandbox_id/exec/active',
    config: { access: anyUser('by_role') },
    schema: {
      operationId: 'getActiveExec',
      tags: ['Sandboxes'],
      summary: 'Read the command that runs in a sandbox',
      description: 'The command of another user is shown as none.',
      params: sandboxPath,
      response: {
        200: activeExec.describe("The running command; another user's command is not shown"),
        ...failures(ofAgentCalls),
      },
    },
    handler: async (request) => {
      const sandbox = await readSandboxRow(deps, request, request.params.sandbox_id);
      const execution = await askAgent(deps, sandbox, (place) => deps.sandboxAgents.findExecution(place));
      if (!execution?.running || execution.owner !== requireCaller(request).userId) return { active: false as const };
      return {
        active: true as const,
        stream_path: streamPath(
          deps,
          sandbox.sandboxId,
          { executionId: execution.executionId, credentialId: requireCredentialId(requireCaller(request)) },
          new Date(execution.deadline),
        ),
        command: execution.command,
        cwd: execution.cwd,
        started_at: execution.startedAt,
        deadline: execution.deadline,
      };
    },
  });
}

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
      const sandbox = await readSandboxRow(deps, request, request.params.sandbox_id);
      await askAgent(deps, sandbox, (place) => deps.sandboxAgents.cancelExecution(place));
      return { cancelled: true as const };
    },
  });
}
