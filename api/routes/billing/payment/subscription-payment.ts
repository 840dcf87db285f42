import { z } from 'zod';
import { findPeriodInvoiceEndingAt, type Invoice } from '../../../../db/billing/invoices.ts';
import { currentPeriod, findSubscription } from '../../../../db/billing/subscriptions.ts';
import { invoiceStatuses } from '../../../../domain/billing/invoice.ts';
import { anyUser, callerOf } from '../../../access.ts';
import type { Api, ApiDependencies } from '../../../dependencies.ts';
import { requireProcessor } from '../../../processor-calls.ts';
import { time } from '../../../schemas/fields.ts';
import { envelope, failures, success } from '../../../schemas/replies.ts';

const payment = z
  .object({
    payment_id: z.string().describe('The invoice'),
    account_id: z.string(),
    payment_type: z.literal('subscription'),
    payment_status: z.enum(invoiceStatuses),
    payment_intent_id: z.string().nullable().describe('Null: paid from the balance, or not charged yet'),
    period_start: time(),
    period_end: time(),
    paid_at: time().nullable(),
    created_at: time(),
    updated_at: time(),
  })
  .meta({ id: 'SubscriptionPayment' });

/**
 * `GET /v1/payment/subscription-payment-by-period`: the payment that was due at the start of the running period. It
 * pays for the period before.
 */
export function getSubscriptionPayment(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'GET',
    url: '/v1/payment/subscription-payment-by-period',
    config: { access: anyUser('account') },
    schema: {
      operationId: 'getSubscriptionPaymentByPeriod',
      tags: ['Payments'],
      summary: 'Get the payment that was due when the current period began',
      description:
        'It pays for the previous period. `data` is null if there is none, as in the first period. An invoice ' +
        'that was paid ' +
        'from the balance has no charge.',
      response: { 200: envelope(payment.nullable(), 'The payment'), ...failures('payments_not_configured') },
    },
    handler: async (request) => {
      requireProcessor(deps);
      const { accountId } = callerOf(request);
      const subscription = await findSubscription(deps.orm.em, accountId);
      if (!subscription) return success(null);
      const { start } = currentPeriod(subscription, new Date());
      const invoice = await findPeriodInvoiceEndingAt(deps.orm.em, accountId, start);
      return success(invoice && present(invoice));
    },
  });
}

function present(invoice: Invoice): z.output<typeof payment> {
  return {
    payment_id: invoice.invoiceId,
    account_id: invoice.accountId,
    payment_type: 'subscription',
    payment_status: invoice.status,
    payment_intent_id: invoice.paymentIntentId,
    period_start: invoice.periodStart,
    period_end: invoice.periodEnd,
    paid_at: invoice.paidAt,
    created_at: invoice.createdAt,
    updated_at: invoice.updatedAt,
  };
}
