import { z } from 'zod';
import { anyUser } from '../../access.ts';
import type { Api, ApiDependencies } from '../../dependencies.ts';
import { failures, messageEnvelope, ofMutations, successMessage } from '../../schemas/replies.ts';
import { sandboxOf } from './read-sandbox.ts';
import { sandboxPath } from './sandbox-path.ts';

const portPath = sandboxPath.extend({ port: z.coerce.number().int().min(1).max(65535) });

/**
 * `DELETE /v1/sandboxes/{sandbox_id}/ports/{port}`: removes one of the sandbox's own ports. The template's ports stay.
 */
export function removeSandboxPort(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'DELETE',
    url: '/v1/sandboxes/:sandbox_id/ports/:port',
    config: { access: anyUser('by_role') },
    schema: {
      operationId: 'removeSandboxPort',
      tags: ['Sandboxes'],
      summary: "Remove a sandbox's own port while it runs",
      description:
        'The port accepts no new requests; running requests continue. A port of the template cannot be removed.',
      params: portPath,
      response: {
        200: messageEnvelope('It is closed'),
        ...failures(ofMutations, 'not_found', 'sandbox_not_running', 'port_of_template'),
      },
    },
    handler: async (request) => {
      const { sandbox_id: sandboxId, port } = request.params;
      await deps.sandboxCommands.removePort(await sandboxOf(deps, request, sandboxId), port);
      return successMessage(`Port ${port} is closed`);
    },
  });
}
