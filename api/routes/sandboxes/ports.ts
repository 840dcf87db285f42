import { z } from 'zod';
import { anyUser } from '../../access.ts';
import type { Api, ApiDependencies } from '../../dependencies.ts';
import { createOnce, idempotencyHeaders } from '../../plugins/idempotency.ts';
import { newPortSchema, portSchema, presentPort, presentPorts, readNewPort } from '../../schemas/port.ts';
import {
  envelope,
  failures,
  messageEnvelope,
  ofIdempotency,
  ofMutations,
  success,
  successMessage,
} from '../../schemas/replies.ts';
import { readSandbox, readSandboxRow, sandboxPath } from './reply.ts';

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
          await deps.sandboxCommands.addPort(await readSandboxRow(deps, request, sandboxId), port);
          return (await present()) ?? presentPort(port);
        },
      });
      return success({ port: added }, `Port ${port.port} is open`);
    },
  });
}

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
      await deps.sandboxCommands.removePort(await readSandboxRow(deps, request, sandboxId), port);
      return successMessage(`Port ${port} is closed`);
    },
  });
}
