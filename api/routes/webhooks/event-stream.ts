import { z } from 'zod';
import { requireCredentialId } from '../../../db/accounts/identities.ts';
import { anyUser, requireCaller, requireScope } from '../../access.ts';
import type { Api, ApiDependencies } from '../../dependencies.ts';
import { keepaliveMs, sendEventStream } from '../../event-streams.ts';
import { onRequestEnd } from '../../plugins/draining.ts';
import { accountQuery } from '../../schemas/lists.ts';
import { failures } from '../../schemas/replies.ts';
import { LiveEvents, WaitingEvents } from './live-events.ts';

/** `GET /v1/events/stream`: what happens in the caller's scope, as server-sent events. */
export function streamEvents(api: Api, deps: ApiDependencies): void {
  const live = new LiveEvents(deps);
  const closing = new AbortController();
  api.addHook('preClose', async () => closing.abort());
  api.route({
    method: 'GET',
    url: '/v1/events/stream',
    config: { access: anyUser('by_role') },
    exposeHeadRoute: false,
    schema: {
      operationId: 'streamEvents',
      tags: ['Webhooks'],
      summary: 'Follow events as they happen',
      description:
        'Server-sent events for pages that show live data: `ready`, then each event of the same types as for webhooks, ' +
        'within two seconds, with a short description in `data`, and `keepalive` in each silence of 15 seconds. `many` ' +
        'stands for a burst of events: read everything again, as after a reconnect. Events are neither kept nor ' +
        'ordered for a reader, and those of the last ten seconds may come again after a reconnect; use a webhook to ' +
        'miss none. The stream ends with its key or session, and when the rights of its user change.',
      querystring: z.object(accountQuery),
      response: {
        200: {
          description: 'Events `ready`, `keepalive`, `many`, and those of `GET /v1/webhooks/event-types`',
          content: { 'text/event-stream': { schema: z.string() } },
        },
        ...failures('event_stream_limit_reached', 'admin_required', 'not_found'),
      },
    },
    handler: async (request, reply) => {
      const caller = requireCaller(request);
      onRequestEnd(reply, live.admit(caller));
      const waiting = new WaitingEvents();
      const { role, isRootUser } = caller;
      const leave = live.watch({
        ...{ scope: requireScope(request), credentialId: requireCredentialId(caller) },
        ...{ rights: { role, isRootUser }, waiting },
      });
      onRequestEnd(reply, () => {
        leave();
        waiting.end();
      });
      return sendEventStream(reply, deps, waiting.frames({ keepaliveMs, signal: closing.signal }));
    },
  });
}
