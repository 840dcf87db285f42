import { z } from 'zod';
import { listSandboxEvents } from '../../../db/sandboxes/sandbox-events.ts';
import { anyUser } from '../../access.ts';
import type { Api, ApiDependencies } from '../../dependencies.ts';
import { time } from '../../schemas/fields.ts';
import { paginationSchema, pagingQuery, presentPagination, toListing } from '../../schemas/lists.ts';
import { envelope, failures, ofPaging, success } from '../../schemas/replies.ts';
import { readSandboxRow, sandboxPath, sandboxReason, sandboxStatus } from './reply.ts';

const eventSchema = z
  .object({
    event_id: z.string(),
    sequence: z.int().min(1).describe('Counts the events of the sandbox without gaps'),
    type: z.string().meta({ examples: ['sandbox.paused'] }),
    status: sandboxStatus.describe('The status that the sandbox had then'),
    reason: sandboxReason.nullable().describe('The reason of the status'),
    created_at: time(),
  })
  .meta({ id: 'SandboxEvent' });

/** `GET /v1/sandboxes/{sandbox_id}/events`. */
export function listEventsOfSandbox(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'GET',
    url: '/v1/sandboxes/:sandbox_id/events',
    config: { access: anyUser('by_role') },
    schema: {
      operationId: 'listSandboxEvents',
      tags: ['Sandboxes'],
      summary: "List the events of a sandbox's life, newest first",
      description:
        'The same events as for webhooks. They are kept for 90 days, unless the operator has chosen another time.',
      params: sandboxPath,
      querystring: z.object(pagingQuery),
      response: {
        200: envelope(z.object({ events: z.array(eventSchema), pagination: paginationSchema }), 'A page of events'),
        ...failures(ofPaging, 'not_found'),
      },
    },
    handler: async (request) => {
      const { sandboxId } = await readSandboxRow(deps, request, request.params.sandbox_id);
      const listing = toListing(deps, request, 50);
      const { events, ...page } = await listSandboxEvents(deps.orm.em, sandboxId, listing);
      return success({
        events: events.map(({ eventId, sequence, type, data, createdAt }) => ({
          ...{ event_id: eventId, sequence, type, created_at: createdAt },
          status: sandboxStatus.parse(data.status),
          reason: sandboxReason.nullable().parse(data.reason ?? null),
        })),
        pagination: presentPagination(listing, page),
      });
    },
  });
}
