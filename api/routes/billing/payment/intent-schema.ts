import { z } from 'zod';
import type { PaymentIntent } from '../../../../db/billing/payment-intents.ts';
import { toJsonNumber } from '../../../../domain/billing/money.ts';
import { chargeStatuses } from '../../../../domain/billing/payments.ts';
import { time } from '../../../schemas/fields.ts';
import { amount, currency } from '../../../schemas/money.ts';

export const intentSchema = z
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

export function presentIntent(intent: PaymentIntent): z.output<typeof intentSchema> {
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
