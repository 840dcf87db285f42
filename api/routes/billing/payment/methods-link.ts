import type { FastifyRequest } from 'fastify';
import { z } from 'zod';
import { credentialOf } from '../../../../db/accounts/identities.ts';
import { cardLinkMinutes } from '../../../../domain/billing/payments.ts';
import { apiUrl } from '../../../../platform/config/public-urls.ts';
import { accountRoot, callerOf } from '../../../access.ts';
import type { Api, ApiDependencies } from '../../../dependencies.ts';
import { addCardPath } from '../../../pages/add-card.ts';
import { beginSetup } from '../../../payment-setups.ts';
import { idempotencyHeaders } from '../../../plugins/idempotency.ts';
import { askProcessor, requireProcessor } from '../../../processor-calls.ts';
import { time } from '../../../schemas/fields.ts';
import { envelope, failures, ofIdempotency, ofMutations, success } from '../../../schemas/replies.ts';

/**
 * `POST /v1/payment/methods/link`: a link to the page that adds a card. The token is after the `#`, because browsers
 * send that part to no server.
 */
export function linkToAddPaymentMethod(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'POST',
    url: '/v1/payment/methods/link',
    config: {
      access: accountRoot('account'),
      idempotency: {
        makes: 'request',
        secrets: ['url'],
        restore: async (data, request) => {
          const { setup_intent_id: setupIntentId, expires_at: expiresAt } = data as Record<string, string>;
          return { ...data, url: await urlOf(deps, request, setupIntentId!, new Date(expiresAt!)) };
        },
      },
    },
    schema: {
      operationId: 'linkToAddPaymentMethod',
      tags: ['Payments'],
      summary: 'Get a link to a page that adds a card',
      description:
        'The page works for an hour without a sign-in, so the person with the card can open it. It stops ' +
        'working earlier if the ' +
        'API key or the session that made the link ends.',
      headers: idempotencyHeaders,
      response: {
        200: envelope(
          z.object({ url: z.string(), setup_intent_id: z.string(), expires_at: time() }),
          'The link; it adds one card to the account, without signing in',
        ),
        ...failures(
          ...([ofMutations, ofIdempotency, 'root_required', 'payment_method_limit_reached'] as const),
          ...(['payments_not_configured', 'payment_processor_unavailable'] as const),
        ),
      },
    },
    handler: async (request) => {
      const processor = requireProcessor(deps);
      const caller = callerOf(request);
      const { setupIntentId } = await askProcessor(beginSetup({ orm: deps.orm, processor }, caller.accountId));
      const expiresAt = new Date(Math.ceil(Date.now() / 1000) * 1000 + cardLinkMinutes * 60_000);
      const url = await urlOf(deps, request, setupIntentId, expiresAt);
      return success({ url, setup_intent_id: setupIntentId, expires_at: expiresAt });
    },
  });
}

async function urlOf(deps: ApiDependencies, request: FastifyRequest, setupIntentId: string, expiresAt: Date) {
  const credentialId = credentialOf(callerOf(request));
  const token = await deps.cardLinks.make({ setupIntentId, credentialId }, expiresAt);
  return `${apiUrl(deps.settings)}${addCardPath}#${token}`;
}
