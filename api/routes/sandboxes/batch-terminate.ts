import { z } from 'zod';
import type { Sandbox } from '../../../db/sandboxes/sandbox.entity.ts';
import { AppError } from '../../../domain/errors.ts';
import type { SandboxStatus } from '../../../domain/sandboxes/state.ts';
import { anyUser } from '../../access.ts';
import type { Api, ApiDependencies } from '../../dependencies.ts';
import { withDefault } from '../../schemas/fields.ts';
import { envelope, failures, ofMutations } from '../../schemas/replies.ts';
import { batchIds, batchResult, runBatch } from './batch.ts';

/** Statuses that lead to another one. For a sandbox that already ends, a second request changes nothing. */
const transitional: readonly SandboxStatus[] = ['created', 'starting', 'pausing', 'resuming'];

/** `POST /v1/sandboxes/batch-terminate`: replies when it is certain that all sandboxes will end. */
export function batchTerminateSandboxes(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'POST',
    url: '/v1/sandboxes/batch-terminate',
    config: { access: anyUser('by_role') },
    schema: {
      operationId: 'batchTerminateSandboxes',
      tags: ['Sandboxes'],
      summary: 'Terminate up to 100 sandboxes',
      description:
        'Each id has its own result. Sandboxes that are changing their status are refused unless `force` is true.',
      body: z.object({
        sandbox_ids: batchIds,
        force: withDefault(z.boolean(), false).describe('Also terminate sandboxes in a transitional status'),
      }),
      response: {
        202: envelope(batchResult('termination_in_progress', 'terminated'), 'Each id has its own result'),
        ...failures(ofMutations),
      },
    },
    handler: async (request, reply) => {
      const { force } = request.body;
      const judge = ({ status }: Sandbox) => {
        if (status === 'terminated') return 'terminated';
        if (force || !transitional.includes(status)) return 'termination_in_progress';
        throw new AppError('sandbox_busy', `The sandbox is ${status}; wait, or use force`);
      };
      const result = await runBatch(deps, request, 'terminated', judge, async (sandboxes) => {
        const living = sandboxes.filter(({ status }) => status !== 'terminated');
        if (living.length > 0) await deps.sandboxCommands.endBatch(living, { forget: false });
      });
      return reply.code(202).send(result);
    },
  });
}
