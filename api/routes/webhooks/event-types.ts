import { z } from 'zod';
import { eventTypes } from '../../../domain/event-types.ts';
import { anyUser } from '../../access.ts';
import type { Api } from '../../dependencies.ts';
import { envelope, failures, success } from '../../schemas/replies.ts';

const reply = z.object({
  event_types: z.array(
    z.object({
      type: z.string(),
      description: z.string(),
      scope: z.enum(['user', 'account']).describe('`account`: only for webhooks of that scope'),
      example: z.record(z.string(), z.unknown()).describe("An example of the event's `data`"),
    }),
  ),
});

/** `GET /v1/webhooks/event-types`. */
export function listEventTypes(api: Api): void {
  api.route({
    method: 'GET',
    url: '/v1/webhooks/event-types',
    config: { access: anyUser('none') },
    schema: {
      operationId: 'listEventTypes',
      tags: ['Webhooks'],
      summary: 'List the types of events, each with an example',
      description:
        'Returns each type with the scope that a webhook needs. `sandbox.*` means all types of a kind, `*` all ' +
        'that are sent without ' +
        'being named.',
      response: { 200: envelope(reply, 'All types'), ...failures() },
    },
    handler: async () =>
      success({ event_types: eventTypes.map(({ audience, ...each }) => ({ ...each, scope: audience })) }),
  });
}
