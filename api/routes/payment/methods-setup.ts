import { z } from 'zod';
import { Account } from '../../../db/entities/account.ts';
import {
  addSetup,
  findCustomer,
  keepCustomer,
  requireRoomForMethod,
} from '../../../db/repositories/payment-methods.ts';
import type { AccountId } from '../../../domain/ids.ts';
import { accountRoot, callerOf } from '../../access.ts';
import type { Api, ApiDependencies } from '../../dependencies.ts';
import { askProcessor, requireProcessor } from '../../processor-calls.ts';
import { envelope, success } from '../../schemas/envelope.ts';
import { failures, ofMutations } from '../../schemas/failures.ts';

/** `POST /v1/payment/methods/setup-intent`: begins to add a card; a browser goes on with the processor. */
export function setUpPaymentMethod(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'POST',
    url: '/v1/payment/methods/setup-intent',
    config: { access: accountRoot('account') },
    schema: {
      operationId: 'setUpPaymentMethod',
      tags: ['Payments'],
      summary: 'Begin to add a card',
      response: {
        200: envelope(
          z.object({ client_secret: z.string(), setup_intent_id: z.string() }),
          'What the browser needs; the secret is not stored',
        ),
        ...failures(
          ...([ofMutations, 'root_required', 'payment_method_limit_reached'] as const),
          ...(['payments_not_configured', 'payment_processor_unavailable'] as const),
        ),
      },
    },
    handler: async (request) => {
      const processor = requireProcessor(deps);
      const { accountId } = callerOf(request);
      const em = deps.orm.em.fork();
      await requireRoomForMethod(em, accountId);
      const customerId = (await findCustomer(em, accountId)) ?? (await makeCustomer(accountId));
      const { setupIntentId, clientSecret } = await askProcessor(processor.createSetup(customerId));
      await addSetup(em, accountId, setupIntentId);
      return success({ client_secret: clientSecret, setup_intent_id: setupIntentId });
    },
  });

  async function makeCustomer(accountId: AccountId): Promise<string> {
    const em = deps.orm.em.fork();
    const { email } = await em.findOneOrFail(Account, { accountId });
    const made = await askProcessor(requireProcessor(deps).createCustomer({ accountId, email }));
    return keepCustomer(em, accountId, made);
  }
}
