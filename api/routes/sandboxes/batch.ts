import type { FastifyRequest } from 'fastify';
import { z } from 'zod';
import type { Sandbox } from '../../../db/sandboxes/sandbox.entity.ts';
import { findSandboxes } from '../../../db/sandboxes/sandbox-rows.ts';
import { AppError, notFound } from '../../../domain/errors.ts';
import type { SandboxId } from '../../../domain/ids.ts';
import { scopeOf } from '../../access.ts';
import type { ApiDependencies } from '../../dependencies.ts';
import { counted, givenId } from '../../schemas/fields.ts';
import { success } from '../../schemas/replies.ts';

/** The maximum number of ids in a request, and of sandboxes that are handled at the same time. */
const maxIds = 100;
const atOnce = 50;

/** Duplicate ids are handled, counted and answered once. */
export const batchIds = counted(
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
export const batchResult = (...statuses: string[]) =>
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
export async function runBatch(
  deps: ApiDependencies,
  request: FastifyRequest<{ Body: { sandbox_ids: SandboxId[] } }>,
  doing: string,
  act: (sandbox: Sandbox) => Promise<string> | string,
  finish?: (sandboxes: Sandbox[]) => Promise<void>,
) {
  const ids = [...new Set(request.body.sandbox_ids)];
  const sandboxes = await findSandboxes(deps.orm.em, scopeOf(request), ids);
  const results = await inParallel(ids, atOnce, async (sandboxId) => {
    try {
      const sandbox = sandboxes.get(sandboxId);
      if (!sandbox) throw notFound('Sandbox');
      return { sandbox_id: sandboxId, status: await act(sandbox) };
    } catch (error) {
      return { sandbox_id: sandboxId, status: 'failed', ...toldOf(error, request) };
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

function toldOf(error: unknown, request: FastifyRequest): { error: string; code: string } {
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
