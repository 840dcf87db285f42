import { z } from 'zod';
import { apiUrl } from '../../../config/public-urls.ts';
import { credentialOf } from '../../../db/repositories/identities.ts';
import { cardLinkMinutes } from '../../../domain/billing/payments.ts';
import { accountRoot, callerOf } from '../../access.ts';
import type { Api, ApiDependencies } from '../../dependencies.ts';
import { addCardPath } from '../../pages/add-card.ts';
import { beginSetup } from '../../payment-setups.ts';
import { askProcessor, requireProcessor } from '../../processor-calls.ts';
import { envelope, success } from '../../schemas/envelope.ts';
import { failures, ofMutations } from '../../schemas/failures.ts';
import { time } from '../../schemas/fields.ts';

/**
 * `POST /v1/payment/methods/link`: a link to the page that adds a card. The token is after the `#`, because browsers
 * send that part to no server.
 */
export function linkToAddPaymentMethod(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'POST',
    url: '/v1/payment/methods/link',
    config: { access: accountRoot('account') },
    schema: {
      operationId: 'linkToAddPaymentMethod',
      tags: ['Payments'],
      summary: 'Get a link to a page that adds a card',
      description:
        'The page works for an hour without a sign-in, so the person with the card can open it. It stops ' +
        'working earlier if the ' +
        'API key or the session that made the link ends.',
      response: {
        200: envelope(
          z.object({ url: z.string(), setup_intent_id: z.string(), expires_at: time() }),
          'The link; it adds one card to the account, without signing in',
        ),
        ...failures(
          ...([ofMutations, 'root_required', 'payment_method_limit_reached'] as const),
          ...(['payments_not_configured', 'payment_processor_unavailable'] as const),
        ),
      },
    },
    handler: async (request) => {
      const processor = requireProcessor(deps);
      const caller = callerOf(request);
      const { setupIntentId } = await askProcessor(beginSetup({ orm: deps.orm, processor }, caller.accountId));
      const expiresAt = new Date(Math.ceil(Date.now() / 1000) * 1000 + cardLinkMinutes * 60_000);
      const token = await deps.cardLinks.make({ setupIntentId, credentialId: credentialOf(caller) }, expiresAt);
      const url = `${apiUrl(deps.settings)}${addCardPath}#${token}`;
      return success({ url, setup_intent_id: setupIntentId, expires_at: expiresAt });
    },
  });
}
