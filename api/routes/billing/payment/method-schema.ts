import { z } from 'zod';
import type { PaymentMethod } from '../../../../db/billing/payment-method.entity.ts';
import { time } from '../../../schemas/fields.ts';

export const methodSchema = z
  .object({
    id: z.string().meta({ examples: ['pmt-9ypjhn8d3fkq6w2mzx5v'] }),
    account_id: z.string(),
    payment_method_id: z.string().describe("The payment processor's id"),
    setup_intent_id: z.string().nullable(),
    type: z.string(),
    fingerprint: z.string().nullable(),
    last4: z.string().nullable(),
    exp_month: z.int().nullable(),
    exp_year: z.int().nullable(),
    brand: z.string().nullable(),
    billing_details: z.object({
      name: z.string().nullable(),
      email: z.string().nullable(),
      country: z.string().nullable(),
    }),
    is_default: z.boolean(),
    is_deleted: z.boolean(),
    is_verified: z.boolean(),
    verified_at: time().nullable(),
    created_at: time(),
    updated_at: time(),
  })
  .meta({ id: 'PaymentMethod' });

export function presentMethod(method: PaymentMethod): z.output<typeof methodSchema> {
  return {
    id: method.id,
    account_id: method.accountId,
    payment_method_id: method.paymentMethodId,
    setup_intent_id: method.setupIntentId ?? null,
    type: method.type,
    fingerprint: method.fingerprint ?? null,
    last4: method.last4 ?? null,
    exp_month: method.expMonth ?? null,
    exp_year: method.expYear ?? null,
    brand: method.brand ?? null,
    billing_details: {
      name: method.billingName ?? null,
      email: method.billingEmail ?? null,
      country: method.billingCountry ?? null,
    },
    is_default: method.isDefault,
    is_deleted: method.isDeleted,
    is_verified: method.isVerified,
    verified_at: method.verifiedAt ?? null,
    created_at: method.createdAt,
    updated_at: method.updatedAt,
  };
}
