import { z } from 'zod';
import {
  type PaymentIntent,
  listPaymentIntents as readIntents,
  readPaymentIntent,
} from '../../../db/billing/payment-intents.ts';
import { findRefund, type PaymentRefund } from '../../../db/billing/payment-refunds.ts';
import { toJsonNumber } from '../../../domain/billing/money.ts';
import { chargeStatuses, refundStatuses } from '../../../domain/billing/payments.ts';
import { refundCharge } from '../../../integrations/payments/refund-charge.ts';
import { accountRoot, operator, requireScope } from '../../access.ts';
import type { Api, ApiDependencies } from '../../dependencies.ts';
import { createOnce, idempotencyHeaders } from '../../plugins/idempotency.ts';
import { optional, optionalBody, optionalQuery, time, withDefaultNonZero } from '../../schemas/fields.ts';
import {
  accountQuery,
  createPagingQuery,
  paginationSchema,
  presentPagination,
  toListing,
} from '../../schemas/lists.ts';
import { envelope, failures, ofIdempotency, ofMutations, ofPaging, success } from '../../schemas/replies.ts';
import { amount, currency, positiveAmount } from './money.ts';
import { askProcessor, requireProcessor } from './processor.ts';

const intentSchema = z
  .object({
    payment_intent_id: z.string(),
    account_id: z.string(),
    payment_method_id: z.string().nullable(),
    amount: amount(),
    currency: currency(),
    status: z.enum(chargeStatuses),
    intent_type: z.string(),
    amount_refunded: amount(),
    failure_reason: z.string().nullable().describe("The processor's code, such as `insufficient_funds`"),
    metadata: z.string().describe('JSON'),
    created_at: time(),
    updated_at: time(),
  })
  .meta({ id: 'PaymentIntent' });

function presentIntent(intent: PaymentIntent): z.output<typeof intentSchema> {
  return {
    payment_intent_id: intent.paymentIntentId,
    account_id: intent.accountId,
    payment_method_id: intent.paymentMethodId,
    amount: toJsonNumber(intent.amount),
    currency: intent.currency,
    status: intent.status,
    intent_type: intent.intentType,
    amount_refunded: toJsonNumber(intent.amountRefunded),
    failure_reason: intent.failureReason,
    metadata: intent.metadata,
    created_at: intent.createdAt,
    updated_at: intent.updatedAt,
  };
}

const query = z.object({
  ...createPagingQuery(20),
  ...accountQuery,
  type: optionalQuery(z.string().max(64)).describe('Only those with this `intent_type`'),
});

/** `GET /v1/payment/intents`. */
export function listPaymentIntents(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'GET',
    url: '/v1/payment/intents',
    config: { access: accountRoot('account') },
    schema: {
      operationId: 'listPaymentIntents',
      tags: ['Payments'],
      summary: 'List the charges of the account, newest first',
      description: 'Each has its amount, its state and, if it failed, the reason. `type` filters the list.',
      querystring: query,
      response: {
        200: envelope(
          z.object({ payment_intents: z.array(intentSchema), pagination: paginationSchema }),
          'A page of charges',
        ),
        ...failures(ofPaging, 'root_required', 'admin_required', 'not_found', 'payments_not_configured'),
      },
    },
    handler: async (request) => {
      requireProcessor(deps);
      const listing = toListing(deps, request, 20);
      const em = deps.orm.em.fork();
      const { intents, ...page } = await readIntents(em, requireScope(request), request.query.type, listing);
      return success({ payment_intents: intents.map(presentIntent), pagination: presentPagination(listing, page) });
    },
  });
}

/** `GET /v1/payment/intents/{id}`. */
export function getPaymentIntent(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'GET',
    url: '/v1/payment/intents/:id',
    config: { access: accountRoot('account') },
    schema: {
      operationId: 'getPaymentIntent',
      tags: ['Payments'],
      summary: 'Get a charge',
      description: "Takes the payment processor's id (`pi_…`). Returns the state that the processor reported last.",
      params: z.object({ id: z.string().meta({ example: 'pi_1QexampleK2eZvKYlo2C' }) }),
      response: {
        200: envelope(intentSchema, 'The charge'),
        ...failures('root_required', 'not_found', 'payments_not_configured'),
      },
    },
    handler: async (request) => {
      requireProcessor(deps);
      return success(
        presentIntent(await readPaymentIntent(deps.orm.em.fork(), requireScope(request), request.params.id)),
      );
    },
  });
}

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
