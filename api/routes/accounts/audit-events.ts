import { z } from 'zod';
import { type AuditEvent, listAuditEvents } from '../../../db/accounts/audit-events.ts';
import { accountRoot, requireScope } from '../../access.ts';
import type { Api, ApiDependencies } from '../../dependencies.ts';
import { givenId, optionalQuery, time, timeQuery } from '../../schemas/fields.ts';
import { accountQuery, paginationSchema, pagingQuery, presentPagination, toListing } from '../../schemas/lists.ts';
import { envelope, failures, ofPaging, success } from '../../schemas/replies.ts';

const query = z.object({
  ...pagingQuery,
  ...accountQuery,
  start: timeQuery().describe('ISO 8601, Unix seconds or milliseconds'),
  end: timeQuery().describe('ISO 8601, Unix seconds or milliseconds'),
  actor_user_id: optionalQuery(givenId('user', z.string().max(64))),
  object_id: optionalQuery(z.string().max(64)),
  action: optionalQuery(z.string().max(64)).describe('Part of the name of the operation'),
});

const fields = () => z.record(z.string(), z.unknown()).nullable();

const auditEventSchema = z
  .object({
    event_id: z.string().meta({ examples: ['aud-9ypjhn8d3fkq6w2mzx5v'] }),
    account_id: z.string().nullable().describe('Null: a change of the whole platform'),
    actor_user_id: z.string().nullable(),
    actor_key_id: z.string().nullable().describe('The API key that was used'),
    actor_session_id: z.string().nullable().describe('The session whose access token was used'),
    address: z.string().describe("The client's IP address; for an operator's command the user and the machine"),
    audited_request_id: z.string().describe('`X-Request-Id` of the request'),
    action: z.string().describe('The operation, by its id in this document, or the name of an operator’s command'),
    object_id: z.string().nullable(),
    before: fields().describe('For settings and roles: the changed fields'),
    after: fields(),
    created_at: time(),
  })
  .meta({ id: 'AuditEvent' });

/** `GET /v1/audit-events`. */
export function listAuditLog(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'GET',
    url: '/v1/audit-events',
    config: { access: accountRoot('account') },
    schema: {
      operationId: 'listAuditEvents',
      tags: ['Account'],
      summary: 'List who changed what in the account, newest first; kept for a year',
      description:
        "Has every successful request that may change something, sign-ins and sign-outs, and operators' " +
        'commands: who, ' +
        'from which address, on which object, with the fields before and after. Events are kept for a year.',
      querystring: query,
      response: {
        200: envelope(
          z.object({ events: z.array(auditEventSchema), pagination: paginationSchema }),
          'A page of events',
        ),
        ...failures(ofPaging, 'root_required', 'admin_required', 'not_found'),
      },
    },
    handler: async (request) => {
      const { start, end, actor_user_id: actorUserId, object_id: objectId, action } = request.query;
      const listing = toListing(deps, request, 50);
      const filter = { from: start, to: end, actorUserId, objectId, action };
      const { events, ...page } = await listAuditEvents(deps.orm.em.fork(), requireScope(request), filter, listing);
      return success({ events: events.map(present), pagination: presentPagination(listing, page) });
    },
  });
}

function present(event: AuditEvent): z.output<typeof auditEventSchema> {
  return {
    event_id: event.eventId,
    account_id: event.accountId,
    actor_user_id: event.actorUserId,
    actor_key_id: event.actorKeyId,
    actor_session_id: event.actorSessionId,
    address: event.address,
    audited_request_id: event.requestId,
    action: event.action,
    object_id: event.objectId,
    before: event.before,
    after: event.after,
    created_at: event.createdAt,
  };
}
