import { z } from 'zod';
import { AppError } from '../../../domain/errors.ts';
import { concurrentStatuses } from '../../../domain/sandbox-state.ts';
import type { Api, ApiDependencies } from '../../dependencies.ts';
import { envelope } from '../../schemas/envelope.ts';
import { failures, ofMutations } from '../../schemas/failures.ts';
import { withDefault } from '../../schemas/fields.ts';
import { batchIds, batchResult, runBatch } from './batch.ts';

/** `POST /v1/sandboxes/batch-delete` (section 4.1). */
export function batchDeleteSandboxes(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'POST',
    url: '/v1/sandboxes/batch-delete',
    schema: {
      operationId: 'batchDeleteSandboxes',
      tags: ['Sandboxes'],
      summary: 'Delete up to 100 sandboxes',
      body: z.object({
        sandbox_ids: batchIds,
        force: withDefault(z.boolean(), false).describe('Also those that run, or are about to'),
      }),
      response: {
        202: envelope(batchResult('deletion_in_progress'), 'Each has its own result'),
        ...failures(ofMutations),
      },
    },
    handler: async (request, reply) => {
      const { force } = request.body;
      const result = await runBatch(deps, request, 'deleted', async (sandbox) => {
        if (!force && concurrentStatuses.includes(sandbox.status)) {
          throw new AppError('sandbox_running', `The sandbox is ${sandbox.status}; terminate it first, or use force`);
        }
        await deps.sandboxCommands.terminate(sandbox, { forget: true });
        return 'deletion_in_progress';
      });
      return reply.code(202).send(result);
    },
  });
}
