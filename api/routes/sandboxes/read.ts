import { z } from 'zod';
import { anyUser } from '../../access.ts';
import type { Api, ApiDependencies } from '../../dependencies.ts';
import { time } from '../../schemas/fields.ts';
import { envelope, failures, success } from '../../schemas/replies.ts';
import {
  fullSandbox,
  readSandboxRow,
  sandboxPath,
  sandboxReason,
  sandboxSchema,
  sandboxStatus,
  sandboxSubstatus,
} from './reply.ts';

/** `GET /v1/sandboxes/{sandbox_id}` with every field. */
export function getSandbox(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'GET',
    url: '/v1/sandboxes/:sandbox_id',
    config: { access: anyUser('by_role') },
    schema: {
      operationId: 'getSandbox',
      tags: ['Sandboxes'],
      summary: 'Read a sandbox',
      description:
        'Returns all fields, also of a sandbox that has ended. A deleted sandbox is 404 when its data is removed.',
      params: sandboxPath,
      response: { 200: envelope(sandboxSchema, 'The sandbox'), ...failures('not_found') },
    },
    handler: async (request) => success(await fullSandbox(deps, request, request.params.sandbox_id)),
  });
}

const statusSchema = z.object({
  sandbox_id: z.string(),
  status: sandboxStatus,
  substatus: sandboxSubstatus.nullable(),
  reason: sandboxReason.nullable(),
  updated_at: time(),
});

/** `GET /v1/sandboxes/{sandbox_id}/status`: for polling. */
export function getSandboxStatus(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'GET',
    url: '/v1/sandboxes/:sandbox_id/status',
    config: { access: anyUser('by_role') },
    schema: {
      operationId: 'getSandboxStatus',
      tags: ['Sandboxes'],
      summary: "Read a sandbox's status",
      description: 'The cheapest route for polling.',
      params: sandboxPath,
      response: { 200: envelope(statusSchema, 'Its status'), ...failures('not_found') },
    },
    handler: async (request) => {
      const sandbox = await readSandboxRow(deps, request, request.params.sandbox_id);
      return success({
        sandbox_id: sandbox.sandboxId,
        status: sandbox.status,
        substatus: sandbox.substatus ?? null,
        reason: sandbox.reason ?? null,
        updated_at: sandbox.updatedAt,
      });
    },
  });
}
