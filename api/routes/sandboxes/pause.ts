import { z } from 'zod';
import { anyUser } from '../../access.ts';
import type { Api, ApiDependencies } from '../../dependencies.ts';
import { optionalBody, withDefault } from '../../schemas/fields.ts';
import { envelope, failures, ofMutations, success } from '../../schemas/replies.ts';
import { fullSandbox, sandboxOf } from './read-sandbox.ts';
import { sandboxPath } from './sandbox-path.ts';
import { sandboxSchema } from './sandbox-schema.ts';

const pauseBody = optionalBody(
  z.object({
    is_async: withDefault(z.boolean(), false).describe('Reply when the sandbox is `pausing`, instead of `paused`'),
  }),
);

/** `POST /v1/sandboxes/{sandbox_id}/pause`. */
export function pauseSandbox(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'POST',
    url: '/v1/sandboxes/:sandbox_id/pause',
    config: { access: anyUser('by_role') },
    schema: {
      operationId: 'pauseSandbox',
      tags: ['Sandboxes'],
      summary: 'Pause a running sandbox',
      description:
        'Freezes all processes. Memory, open files and disk are kept; paused time does not count as running. ' +
        'In a region whose ' +
        'sandboxes are pods of a cluster, the processes may end and only the disk is kept: a resume then ' +
        'starts the sandbox again.',
      params: sandboxPath,
      body: pauseBody,
      response: {
        200: envelope(sandboxSchema, 'The sandbox, `paused` or `pausing`'),
        ...failures(
          ofMutations,
          ...([
            'not_found',
            'sandbox_not_running',
            'sandbox_busy',
            'sandbox_ended',
            'pause_failed',
            'host_unavailable',
          ] as const),
        ),
      },
    },
    handler: async (request) => {
      const { sandbox_id: sandboxId } = request.params;
      const sandbox = await sandboxOf(deps, request, sandboxId);
      await deps.sandboxCommands.pause(sandbox, { wait: !request.body.is_async });
      return success(await fullSandbox(deps, request, sandboxId));
    },
  });
}
