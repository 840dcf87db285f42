import { z } from 'zod';
import type { Sandbox } from '../../../db/sandboxes/sandbox.entity.ts';
import { AppError } from '../../../domain/errors.ts';
import { concurrentStatuses } from '../../../domain/sandboxes/state.ts';
import { anyUser } from '../../access.ts';
import type { Api, ApiDependencies } from '../../dependencies.ts';
import { withDefault } from '../../schemas/fields.ts';
import { envelope, failures, ofMutations } from '../../schemas/replies.ts';
import { batchIds, batchResult, runBatch } from './batch.ts';

/** `POST /v1/sandboxes/batch-delete`: replies when it is certain that all sandboxes will end and be removed. */
export function batchDeleteSandboxes(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'POST',
    url: '/v1/sandboxes/batch-delete',
    config: { access: anyUser('by_role') },
    schema: {
      operationId: 'batchDeleteSandboxes',
      tags: ['Sandboxes'],
      summary: 'Delete up to 100 sandboxes',
      description: 'Each id has its own result. Sandboxes that count as concurrent are refused unless `force` is true.',
      body: z.object({
        sandbox_ids: batchIds,
        force: withDefault(z.boolean(), false).describe('Also delete sandboxes that run, start or resume'),
      }),
      response: {
        202: envelope(batchResult('deletion_in_progress'), 'Each id has its own result'),
        ...failures(ofMutations),
      },
    },
    handler: async (request, reply) => {
      const { force } = request.body;
      const judge = ({ status }: Sandbox) => {
        if (force || !concurrentStatuses.includes(status)) return 'deletion_in_progress';
        throw new AppError('sandbox_running', `The sandbox is ${status}; terminate it first, or use force`);
      };
      const result = await runBatch(deps, request, 'deleted', judge, (sandboxes) =>
        deps.sandboxCommands.endBatch(sandboxes, { forget: true }),
      );
      return reply.code(202).send(result);
    },
  });
}
