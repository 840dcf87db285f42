import { z } from 'zod';
import { readNewestEvents } from '../../../db/core/recent-events.ts';
import { anyUser, requireScope } from '../../access.ts';
import type { Api, ApiDependencies } from '../../dependencies.ts';
import { time } from '../../schemas/fields.ts';
import { accountQuery, cutLimit } from '../../schemas/lists.ts';
import { envelope, failures, success } from '../../schemas/replies.ts';

const eventSchema = z
  .object({
    event_id: z.string(),
    type: z.string().meta({ examples: ['sandbox.paused'] }),
    object_id: z.string().meta({ description: 'What has changed', examples: ['sbx-5k2vq8m3w7xj4r6t9ypz1hdn'] }),
    sandbox_id: z.string().nullable().describe('Null: the event is not about a sandbox'),
    created_at: time(),
  })
  .meta({ id: 'NewestEvent' });

/** `GET /v1/events`: what happened last in the caller's scope. */
export function listNewestEvents(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'GET',
    url: '/v1/events',
    config: { access: anyUser('by_role') },
    schema: {
      operationId: 'listNewestEvents',
      tags: ['Webhooks'],
      summary: 'List the newest events',
      description:
        'The events of the last day, newest first, of the same types as for webhooks. ' +
        '`GET /v1/sandboxes/{sandbox_id}/events` has all events of a sandbox.',
      querystring: z.object({ ...accountQuery, limit: cutLimit(20, 100) }),
      response: {
        200: envelope(z.object({ events: z.array(eventSchema), limit: z.int() }), 'The newest events'),
        ...failures('invalid_pagination', 'admin_required', 'not_found'),
      },
    },
    handler: async (request) => {
      const { limit } = request.query;
      const events = await readNewestEvents(deps.orm.em, requireScope(request), limit);
      return success({
        events: events.map(({ eventId, type, objectId, data, createdAt }) => ({
          ...{ event_id: eventId, type, object_id: objectId, created_at: createdAt },
          sandbox_id: typeof data.sandbox_id === 'string' ? data.sandbox_id : null,
        })),
        limit,
      });
    },
  });
}
