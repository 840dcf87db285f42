import type { FastifyRequest } from 'fastify';
import { z } from 'zod';
import type { Sandbox } from '../../../db/sandboxes/sandbox.entity.ts';
import { findSandboxes } from '../../../db/sandboxes/sandbox-rows.ts';
import { AppError, notFound } from '../../../domain/errors.ts';
import type { SandboxId } from '../../../domain/ids.ts';
import { requireFresh } from '../../../domain/sandboxes/object-storage.ts';
import { concurrentStatuses, type SandboxStatus } from '../../../domain/sandboxes/state.ts';
import { anyUser, requireScope } from '../../access.ts';
import type { Api, ApiDependencies } from '../../dependencies.ts';
import { counted, givenId, withDefault } from '../../schemas/fields.ts';
import { envelope, failures, ofMutations, success } from '../../schemas/replies.ts';

/** The maximum number of ids in a request, and of sandboxes that are handled at the same time. */
const maxIds = 100;
const atOnce = 50;

/** Duplicate ids are handled, counted and answered once. */
const batchIds = counted(
  maxIds,
  'ids',
  z
    .array(givenId('sandbox', z.string().max(64)))
    .min(1)
    .max(maxIds),
).describe('`sbx-…`; a repeated id is handled only once');

/**
 * The reply of a batch.
 * @param statuses the statuses of accepted sandboxes; the others are `failed`
 */
const batchResult = (...statuses: string[]) =>
  z.object({
    total: z.int().min(0).describe('Different ids'),
    successful: z.int().min(0),
    failed: z.int().min(0),
    results: z.array(
      z.object({
        sandbox_id: z.string(),
        status: z.enum([...statuses, 'failed']),
        error: z.string().optional().describe('A message for people; only for failed items'),
        code: z.string().optional().describe('For programs, like `code` of an error'),
      }),
    ),
  });

/**
 * Applies an action to each of the caller's sandboxes in the request. A failure of one does not affect the others. The
 * results are in the order of the ids.
 * @param doing the action in a sentence such as "3 sandboxes are being paused"
 * @param act returns the status for the result, or throws `AppError`
 * @param finish runs once for all sandboxes that `act` did not refuse
 */
async function runBatch(
  deps: ApiDependencies,
  request: FastifyRequest<{ Body: { sandbox_ids: SandboxId[] } }>,
  doing: string,
  act: (sandbox: Sandbox) => Promise<string> | string,
  finish?: (sandboxes: Sandbox[]) => Promise<void>,
) {
  const ids = [...new Set(request.body.sandbox_ids)];
  const sandboxes = await findSandboxes(deps.orm.em, requireScope(request), ids);
  const results = await inParallel(ids, atOnce, async (sandboxId) => {
    try {
      const sandbox = sandboxes.get(sandboxId);
      if (!sandbox) throw notFound('Sandbox');
      return { sandbox_id: sandboxId, status: await act(sandbox) };
    } catch (error) {
      return { sandbox_id: sandboxId, status: 'failed', ...publicFailure(error, request) };
    }
  });
  const accepted = results.filter(({ status }) => status !== 'failed').map((each) => sandboxes.get(each.sandbox_id)!);
  if (accepted.length > 0) await finish?.(accepted);
  const failed = results.filter(({ status }) => status === 'failed').length;
  const successful = results.length - failed;
  const counted = successful === 1 ? '1 sandbox is' : `${successful} sandboxes are`;
  const message = `${counted} being ${doing}${failed === 0 ? '' : `; ${failed} failed`}`;
  return success({ total: results.length, successful, failed, results }, message);
}

function publicFailure(error: unknown, request: FastifyRequest): { error: string; code: string } {
  if (error instanceof AppError) return { error: error.message, code: error.code };
  request.log.error({ err: error }, 'an action of a batch failed');
  return { error: 'An internal error occurred', code: 'internal_error' };
}

/** The results in the order of the items, with at most `limit` concurrent calls of `work`. */
async function inParallel<T, R>(items: readonly T[], limit: number, work: (item: T) => Promise<R>): Promise<R[]> {
  const results: R[] = [];
  let next = 0;
  const worker = async () => {
    while (next < items.length) {
      const index = next++;
      results[index] = await work(items[index]!);
    }
  };
  await Promise.all(Array.from({ length: Math.min(limit, items.length) }, worker));
  return results;
}

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
