import { z } from 'zod';
import { anyUser } from '../../access.ts';
import type { Api, ApiDependencies } from '../../dependencies.ts';
import { portSchema, presentPorts } from '../../schemas/port.ts';
import { envelope, failures, success } from '../../schemas/replies.ts';
import { readSandbox } from './read-sandbox.ts';
import { sandboxPath } from './sandbox-path.ts';

const portLists = z
  .object({
    ports: z.array(portSchema).describe('All of them'),
    template_ports: z.array(portSchema),
    custom_ports: z.array(portSchema),
  })
  .meta({ id: 'SandboxPorts' });

/** `GET /v1/sandboxes/{sandbox_id}/ports`. */
export function listSandboxPorts(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'GET',
    url: '/v1/sandboxes/:sandbox_id/ports',
    config: { access: anyUser('by_role') },
    schema: {
      operationId: 'listSandboxPorts',
      tags: ['Sandboxes'],
      summary: "List a sandbox's ports",
      description: 'Returns the ports of its template and its own ports.',
      params: sandboxPath,
      response: { 200: envelope(portLists, "Its template's ports and its own"), ...failures('not_found') },
    },
    handler: async (request) => success(presentPorts(await readSandbox(deps, request, request.params.sandbox_id))),
  });
}
