import { z } from 'zod';
import { findSubscription } from '../../../../db/billing/subscriptions.ts';
import { notFound } from '../../../../domain/errors.ts';
import { anyUser, callerOf } from '../../../access.ts';
import type { Api, ApiDependencies } from '../../../dependencies.ts';
import { envelope, failures, success } from '../../../schemas/replies.ts';
import { presentSubscription, subscriptionSchema } from './subscription-schema.ts';

/** `GET /v1/user-management/account/subscription`. */
export function getSubscription(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'GET',
    url: '/v1/user-management/account/subscription',
    config: { access: anyUser('account') },
    schema: {
      operationId: 'getSubscription',
      tags: ['Users'],
      summary: 'Get the subscription of the account, with its plan',
      description:
        'The plan has the price and the limits at the time of the purchase. A change of the offered plans ' +
        'applies from the next period on.',
      response: {
        200: envelope(z.object({ subscription: subscriptionSchema }), 'The subscription'),
        ...failures('not_found'),
      },
    },
    handler: async (request) => {
      const subscription = await findSubscription(deps.orm.em, callerOf(request).accountId);
      if (!subscription) throw notFound('Subscription');
      return success({ subscription: presentSubscription(subscription) });
    },
  });
}
