import { z } from 'zod';
import { anyUser } from '../../access.ts';
import type { Api, ApiDependencies } from '../../dependencies.ts';
import { createOnce, idempotencyHeaders } from '../../plugins/idempotency.ts';
import { newPortSchema, portSchema, presentPort, presentPorts, readNewPort } from '../../schemas/port.ts';
import { envelope, failures, ofIdempotency, ofMutations, success } from '../../schemas/replies.ts';
import { readSandbox, sandboxOf } from './read-sandbox.ts';
import { sandboxPath } from './sandbox-path.ts';

/** `POST /v1/sandboxes/{sandbox_id}/ports`. */
export function addSandboxPort(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'POST',
    url: '/v1/sandboxes/:sandbox_id/ports',
    config: { access: anyUser('by_role'), idempotency: { makes: 'request' } },
    schema: {
      operationId: 'addSandboxPort',
      tags: ['Sandboxes'],
      summary: 'Add a port to a running sandbox; replies when the port is reachable',
      description:
        'A declared port is public unless `is_protected`; it is reached at `<port>-<sandbox_domain>`. A UDP port gets ' +
        'a port of the host (`host_port`).',
      headers: idempotencyHeaders,
      params: sandboxPath,
      body: newPortSchema,
      response: {
        200: envelope(z.object({ port: portSchema }), 'The port'),
        ...failures(
          ...([ofMutations, ofIdempotency, 'not_found', 'sandbox_not_running'] as const),
          ...(['port_taken', 'port_name_taken', 'port_limit_reached', 'no_capacity'] as const),
        ),
      },
    },
    handler: async (request) => {
      const { sandbox_id: sandboxId } = request.params;
      const port = readNewPort(request.body);
      const present = async () => {
        const { custom_ports: ports } = presentPorts(await readSandbox(deps, request, sandboxId));
        const isAsked = (item: (typeof ports)[number]) =>
          item.port === port.port && item.name === port.name && item.protocol === port.protocol;
        return ports.find(isAsked) ?? null;
      };
      const added = await createOnce(request, 'request', {
        find: present,
        create: async () => {
          await deps.sandboxCommands.addPort(await sandboxOf(deps, request, sandboxId), port);
          return (await present()) ?? presentPort(port);
        },
      });
      return success({ port: added }, `Port ${port.port} is open`);
    },
  });
}
