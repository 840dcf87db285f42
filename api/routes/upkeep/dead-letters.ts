import { z } from 'zod';
import { listDeadEntries } from '../../../db/core/outbox.ts';
import { retryDeadLetters } from '../../../db/upkeep/dead-letters.ts';
import { notFound } from '../../../domain/errors.ts';
import { operator } from '../../access.ts';
import type { Api, ApiDependencies } from '../../dependencies.ts';
import { time } from '../../schemas/fields.ts';
import { paginationSchema, pagingQuery, presentPagination, toListing } from '../../schemas/lists.ts';
import {
  envelope,
  failures,
  messageEnvelope,
  ofMutations,
  ofPaging,
  success,
  successMessage,
} from '../../schemas/replies.ts';

const deadLetter = z
  .object({
    id: z.string().meta({ examples: ['1042'] }),
    workflow_type: z.string().meta({ examples: ['passwordReset'] }),
    workflow_id: z
      .string()
      .describe('It begins with the id of the object')
      .meta({ examples: ['usr-3kf8d2q7w9z1m4n6x5bc'] }),
    signal: z
      .string()
      .nullable()
      .meta({ examples: ['pauseRequested'] })
      .describe('The signal to the workflow. Null: the workflow should start'),
    attempts: z.int().min(0),
    last_error: z
      .string()
      .nullable()
      .meta({ examples: ['INVALID_ARGUMENT: the input is too large'] }),
    created_at: time(),
    dead_at: time().describe('When it was given up'),
  })
  .meta({ id: 'DeadLetter' });

/** `GET /v1/admin/dead-letters`. */
export function listDeadLetters(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'GET',
    url: '/v1/admin/dead-letters',
    config: { access: operator('everything') },
    schema: {
      operationId: 'listDeadLetters',
      tags: ['Operation'],
      summary: 'List workflow starts and signals that were given up, newest first',
      description: 'Temporal has refused each of them ten times. They wait here until an operator retries them.',
      querystring: z.object(pagingQuery),
      response: {
        200: envelope(
          z.object({ dead_letters: z.array(deadLetter), pagination: paginationSchema }),
          'A page of dead letters',
        ),
        ...failures(ofPaging, 'admin_required'),
      },
    },
    handler: async (request) => {
      const listing = toListing(deps, request, 50);
      const { entries, ...page } = await listDeadEntries(deps.orm.em, listing);
      return success({
        dead_letters: entries.map((entry) => ({
          id: entry.id,
          workflow_type: entry.workflowType,
          workflow_id: entry.workflowId,
          signal: entry.signal ?? null,
          attempts: entry.attempts,
          last_error: entry.lastError ?? null,
          created_at: entry.createdAt,
          dead_at: entry.deadAt!,
        })),
        pagination: presentPagination(listing, page),
      });
    },
  });
}

/** `POST /v1/admin/dead-letters/{id}/retry`. */
export function retryDeadLetter(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'POST',
    url: '/v1/admin/dead-letters/:id/retry',
    config: { access: operator('everything') },
    schema: {
      operationId: 'retryDeadLetter',
      tags: ['Operation'],
      summary: 'Retry a dead letter',
      description: 'The control worker delivers it within a second, unless Temporal refuses it again.',
      params: z.object({ id: z.string().meta({ example: '1042' }) }),
      response: {
        200: messageEnvelope('It is delivered soon'),
        ...failures(ofMutations, 'admin_required', 'not_found'),
      },
    },
    handler: async ({ params: { id } }) => {
      const isNumber = /^\d{1,18}$/.test(id);
      if (!isNumber || (await retryDeadLetters(deps.orm.em, id)) === 0) throw notFound('Dead letter');
      return successMessage('The dead letter is retried');
    },
  });
}
