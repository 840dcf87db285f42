import { z } from 'zod';
import { listWebhookEndpoints } from '../../../db/webhooks/webhook-endpoints.ts';
import { anyUser, callerOf, scopeOf } from '../../access.ts';
import type { Api, ApiDependencies } from '../../dependencies.ts';
import { accountQuery, listingOf, paginationOf, paginationSchema, pagingQuery } from '../../schemas/lists.ts';
import { envelope, failures, ofPaging, success } from '../../schemas/replies.ts';
import { presentWebhook, webhookSchema } from './webhook-schema.ts';

const reply = z.object({ webhooks: z.array(webhookSchema), pagination: paginationSchema });

/** `GET /v1/webhooks`. A user sees their own webhooks, the account root all webhooks of the account. */
export function listWebhooks(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'GET',
    url: '/v1/webhooks',
    config: { access: anyUser('by_role') },
    schema: {
      operationId: 'listWebhooks',
      tags: ['Webhooks'],
      summary: 'List webhooks, newest first',
      description: 'Users see their own webhooks, root users those of the account.',
      querystring: z.object({ ...pagingQuery, ...accountQuery }),
      response: { 200: envelope(reply, 'A page of endpoints'), ...failures(ofPaging, 'admin_required', 'not_found') },
    },
    handler: async (request) => {
      const listing = listingOf(request.query, 50);
      const { endpoints, total } = await listWebhookEndpoints(deps.orm.em.fork(), scopeOf(request), listing);
      const caller = callerOf(request);
      return success({
        webhooks: endpoints.map((each) => presentWebhook(each, caller)),
        pagination: paginationOf(listing, total),
      });
    },
  });
}
