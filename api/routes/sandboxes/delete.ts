import { anyUser } from '../../access.ts';
import type { Api, ApiDependencies } from '../../dependencies.ts';
import { envelope, failures, ofMutations, success } from '../../schemas/replies.ts';
import { ending, forceQuery } from './ending.ts';
import { sandboxOf } from './read-sandbox.ts';
import { sandboxPath } from './sandbox-path.ts';

/** `DELETE /v1/sandboxes/{sandbox_id}`: works from every status. Afterwards the sandbox answers 404. */
export function deleteSandbox(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'DELETE',
    url: '/v1/sandboxes/:sandbox_id',
    config: { access: anyUser('by_role') },
    schema: {
      operationId: 'deleteSandbox',
      tags: ['Sandboxes'],
      summary: 'Delete a sandbox; a sandbox that has not ended is ended first',
      description:
        'Works in every status. Cancels a running operation and removes the disk; then the sandbox is 404 and ' +
        'in no list.',
      params: sandboxPath,
      querystring: forceQuery,
      response: {
        202: envelope(ending('deletion_in_progress'), 'The sandbox is being deleted'),
        ...failures(ofMutations, 'not_found', 'sandbox_busy'),
      },
    },
    handler: async (request, reply) => {
      const { sandbox_id: sandboxId } = request.params;
      const sandbox = await sandboxOf(deps, request, sandboxId);
      await deps.sandboxCommands.terminate(sandbox, { forget: true });
      const note = 'It is 404 when its data is removed';
      return reply
        .code(202)
        .send(success({ sandbox_id: sandboxId, status: 'deletion_in_progress', note }, 'The sandbox is being deleted'));
    },
  });
}
