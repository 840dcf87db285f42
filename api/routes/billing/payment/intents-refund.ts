import { z } from 'zod';
import { findRefund, type PaymentRefund } from '../../../../db/billing/payment-refunds.ts';
import { toJsonNumber } from '../../../../domain/billing/money.ts';
import { refundStatuses } from '../../../../domain/billing/payments.ts';
import { refundCharge } from '../../../../integrations/payments/refund-charge.ts';
import { operator } from '../../../access.ts';
import type { Api, ApiDependencies } from '../../../dependencies.ts';
import { createOnce, idempotencyHeaders } from '../../../plugins/idempotency.ts';
import { askProcessor, requireProcessor } from '../../../processor-calls.ts';
import { optional, optionalBody, time, withDefaultNonZero } from '../../../schemas/fields.ts';
import { amount, currency, positiveAmount } from '../../../schemas/money.ts';
import { envelope, failures, ofIdempotency, ofMutations, success } from '../../../schemas/replies.ts';

const refundSchema = z
  .object({
    refund_id: z.string(),
    payment_intent_id: z.string(),
    account_id: z.string(),
    amount: amount(),
    currency: currency(),
    status: z
      .enum(refundStatuses)
      .describe(
        '`requested`: the outcome is not known; `pending`: the bank processes it; `failed`: nothing was refunded',
      ),
    failure_reason: z.string().nullable().describe("The processor's code"),
    description: z.string(),
    created_at: time(),
  })
  .meta({ id: 'PaymentRefund' });

/** `POST /v1/payment/intents/{id}/refunds`: operators refund a charge or a part of it. */
export function refundPaymentIntent(api: Api, deps: ApiDependencies): void {
  const body = optionalBody(
    z.object({
      amount: optional(positiveAmount(deps.plans.currency)).describe('Default: the rest of the charge'),
      description: withDefaultNonZero(z.string().max(500), 'By the operator of the platform'),
    }),
  );
  api.route({
    method: 'POST',
    url: '/v1/payment/intents/:id/refunds',
    config: { access: operator('everything'), idempotency: { makes: 'paymentRefund' } },
    schema: {
      operationId: 'refundPaymentIntent',
      tags: ['Payments'],
      summary: 'Refund a charge, or a part of it',
      description:
        'A charge can be refunded in several parts; without `amount`, the rest is refunded. `requested` means ' +
        'that the processor did ' +
        'not answer: the amount counts as refunded until a notification, or the next refund of the charge, ' +
        'shows the outcome.',
      headers: idempotencyHeaders,
      params: z.object({ id: z.string().meta({ example: 'pi_1QexampleK2eZvKYlo2C' }) }),
      body,
      response: {
        201: envelope(refundSchema, 'The refund'),
        ...failures(
          ...([ofMutations, ofIdempotency, 'admin_required', 'not_found', 'payment_not_refundable'] as const),
          ...(['refund_too_large', 'payments_not_configured', 'payment_processor_unavailable'] as const),
        ),
      },
    },
    handler: async (request, reply) => {
      const processor = requireProcessor(deps);
      const { amount: wanted, description } = request.body;
      const made = await createOnce(request, 'paymentRefund', {
        find: async (id) => {
          const found = await findRefund(deps.orm.em.fork(), id);
          // A refund whose process died before its outcome was known is requested again, to learn the outcome.
          return found?.status === 'requested' ? null : found;
        },
        create: (refundId) => {
          const refund = { refundId, paymentIntentId: request.params.id, amount: wanted ?? null, description };
          return askProcessor(refundCharge({ orm: deps.orm, processor }, refund));
        },
      });
      return reply.code(201).send(success(presentRefund(made)));
    },
  });
}

function presentRefund(refund: PaymentRefund): z.output<typeof refundSchema> {
  return {
    refund_id: refund.refundId,
    payment_intent_id: refund.paymentIntentId,
    account_id: refund.accountId,
    amount: toJsonNumber(refund.amount),
    currency: refund.currency,
    status: refund.status,
    failure_reason: refund.failureReason,
    description: refund.description,
    created_at: refund.createdAt,
  };
}
