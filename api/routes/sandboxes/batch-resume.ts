import { z } from 'zod';
import { requireFresh } from '../../../domain/sandboxes/object-storage.ts';
import { anyUser } from '../../access.ts';
import type { Api, ApiDependencies } from '../../dependencies.ts';
import { envelope, failures, ofMutations } from '../../schemas/replies.ts';
import { batchIds, batchResult, runBatch } from './batch.ts';

/**
 * Fields of the resume of one sandbox that a batch refuses. If a batch ignored them, it would resume with other mounts
 * than requested.
 */
const ofOneOnly = ['object_storage', 'best_effort_oss'];

const body = z.looseObject({ sandbox_ids: batchIds }).superRefine((given, context) => {
  for (const name of ofOneOnly) {
    const value = given[name];
    const isAsked = typeof value === 'object' && value !== null ? Object.keys(value).length > 0 : Boolean(value);
    if (isAsked)
      context.addIssue({ code: 'custom', path: [name], message: 'is only for the resume of a single sandbox' });
  }
});

/**
 * `POST /v1/sandboxes/batch-resume`: each sandbox is admitted separately, and its reply is due when it is `resuming`.
 */
export function batchResumeSandboxes(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'POST',
    url: '/v1/sandboxes/batch-resume',
    config: { access: anyUser('by_role') },
    schema: {
      operationId: 'batchResumeSandboxes',
      tags: ['Sandboxes'],
      summary: 'Resume up to 100 paused sandboxes',
      description: 'Each id has its own result, as from the single route.',
      body,
      response: {
        202: envelope(batchResult('resuming'), 'Each id has its own result'),
        ...failures(ofMutations),
      },
    },
    handler: async (request, reply) => {
      const result = await runBatch(deps, request, 'resumed', async (sandbox) => {
        if (sandbox.status === 'paused') requireFresh({ slots: sandbox.objectStorage, credentials: {} }, false);
        await deps.sandboxCommands.resume(sandbox, { wait: false });
        return 'resuming';
      });
      return reply.code(202).send(result);
    },
  });
}
