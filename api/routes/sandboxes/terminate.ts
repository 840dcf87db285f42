import { anyUser } from '../../access.ts';
import type { Api, ApiDependencies } from '../../dependencies.ts';
import { envelope, failures, ofMutations, success } from '../../schemas/replies.ts';
import { ending, forceQuery } from './ending.ts';
import { sandboxOf } from './read-sandbox.ts';
import { sandboxPath } from './sandbox-path.ts';

/** `POST /v1/sandboxes/{sandbox_id}/terminate`: works from every status, including `failed`. */
export function terminateSandbox(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'POST',
    url: '/v1/sandboxes/:sandbox_id/terminate',
    config: { access: anyUser('by_role') },
    schema: {
      operationId: 'terminateSandbox',
      tags: ['Sandboxes'],
      summary: 'Terminate a sandbox; it stays readable',
      description:
        'Works in every status. Cancels a running operation and removes the disk; the sandbox stays readable. ' +
        'A sandbox that has ' +
        'ended is 200.',
      params: sandboxPath,
      querystring: forceQuery,
      response: {
        200: envelope(ending('terminated'), 'It was already terminated'),
        202: envelope(ending('termination_in_progress'), 'It is being terminated'),
        ...failures(ofMutations, 'not_found', 'sandbox_busy'),
      },
    },
    handler: async (request, reply) => {
      const { sandbox_id: sandboxId } = request.params;
      const sandbox = await sandboxOf(deps, request, sandboxId);
      const { alreadyTerminated } = await deps.sandboxCommands.terminate(sandbox, { forget: false });
      if (alreadyTerminated) {
        const note = 'The sandbox has already ended';
        return reply
          .code(200)
          .send(success({ sandbox_id: sandboxId, status: 'terminated', note }, 'The sandbox is already terminated'));
      }
      const note = 'Its processes are being ended; then its disk is removed';
      return reply
        .code(202)
        .send(
          success(
            { sandbox_id: sandboxId, status: 'termination_in_progress', note },
            'The sandbox is being terminated',
          ),
        );
    },
  });
}
