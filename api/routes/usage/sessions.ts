import { z } from 'zod';
import { listSessions, type UsageSession } from '../../../db/usage/usage-sessions.ts';
import { anyUser, requireScope } from '../../access.ts';
import type { Api, ApiDependencies } from '../../dependencies.ts';
import { givenId, optionalQuery, time } from '../../schemas/fields.ts';
import { accountQuery, paginationSchema, pagingQuery, presentPagination, toListing } from '../../schemas/lists.ts';
import { envelope, failures, ofPaging, success } from '../../schemas/replies.ts';
import { boundsQuery, resolveBounds } from '../../schemas/usage-window.ts';

const query = z.object({
  ...pagingQuery,
  ...accountQuery,
  ...boundsQuery,
  project_id: optionalQuery(givenId('project', z.string().max(64))),
});

const sessionSchema = z
  .object({
    session_id: z.string(),
    resource_type: z.literal('sandbox'),
    resource_id: z.string(),
    resource_name: z.string(),
    status: z.enum(['active', 'completed', 'failed']).describe('`active`: the sandbox runs or is paused'),
    start_time: time().describe('When it first ran'),
    end_time: time().nullable().describe('Null: it is active'),
    duration: z.int().min(0).describe('Seconds from the start to the end, or to now'),
    cpu_count: z.int(),
    memory_mb: z.int(),
    storage_gb: z.int(),
    estimated_cost: z.number().min(0).describe('The cost until now'),
    final_cost: z.number().min(0).nullable().describe('Null: it is active'),
  })
  .meta({ id: 'UsageSession' });

/** `GET /v1/usage/sessions`: a session is the life of a sandbox since it first ran. */
export function listUsageSessions(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'GET',
    url: '/v1/usage/sessions',
    config: { access: anyUser('by_role') },
    schema: {
      operationId: 'listUsageSessions',
      tags: ['Usage'],
      summary: 'List sessions of sandboxes with their cost, newest first',
      description:
        'A session is the life of a sandbox from its first running phase on. The cost of an active session is ' +
        '`estimated_cost`; `final_cost` is set when it has ended.',
      querystring: query,
      response: {
        200: envelope(
          z.object({ sessions: z.array(sessionSchema), pagination: paginationSchema }),
          'A page of sessions that began between `start` and `end`',
        ),
        ...failures(ofPaging, 'invalid_date_range', 'admin_required', 'not_found'),
      },
    },
    handler: async (request) => {
      const listing = toListing(deps, request, 50);
      const now = new Date();
      const window = resolveBounds(request.query, now);
      const of = { scope: requireScope(request), projectId: request.query.project_id };
      const { sessions, ...page } = await listSessions(deps.orm.em, of, window, listing, now);
      return success({
        sessions: sessions.map((session) => present(session, now)),
        pagination: presentPagination(listing, page),
      });
    },
  });
}

function present({ sandbox, status, cost }: UsageSession, now: Date): z.output<typeof sessionSchema> {
  const start = sandbox.startedAt!;
  const end = sandbox.stoppedAt ?? null;
  return {
    session_id: sandbox.sandboxId.replace('sbx-', 'uss-'),
    resource_type: 'sandbox',
    resource_id: sandbox.sandboxId,
    resource_name: sandbox.name,
    status,
    start_time: start,
    end_time: end,
    duration: Math.max(0, Math.floor(((end ?? now).getTime() - start.getTime()) / 1000)),
    cpu_count: sandbox.cpuCount,
    memory_mb: sandbox.memoryMb,
    storage_gb: sandbox.storageGb,
    estimated_cost: cost,
    final_cost: end ? cost : null,
  };
}
