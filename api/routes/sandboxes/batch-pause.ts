import { z } from 'zod';
import { anyUser } from '../../access.ts';
import type { Api, ApiDependencies } from '../../dependencies.ts';
import { envelope, failures, ofMutations } from '../../schemas/replies.ts';
import { batchIds, batchResult, runBatch } from './batch.ts';

/** `POST /v1/sandboxes/batch-pause`: replies when each sandbox is `pausing`. */
export function batchPauseSandboxes(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'POST',
    url: '/v1/sandboxes/batch-pause',
    config: { access: anyUser('by_role') },
    schema: {
      operationId: 'batchPauseSandboxes',
      tags: ['Sandboxes'],
      summary: 'Pause up to 100 sandboxes',
      description: 'Each id has its own result, as from the single route.',
      body: z.object({ sandbox_ids: batchIds }),
      response: {
        202: envelope(batchResult('pausing'), 'Each id has its own result'),
        ...failures(ofMutations),
      },
    },
    handler: async (request, reply) => {
      const result = await runBatch(deps, request, 'paused', async (sandbox) => {
        await deps.sandboxCommands.pause(sandbox, { wait: false });
        return 'pausing';
      });
      return reply.code(202).send(result);
    },
  });
}
