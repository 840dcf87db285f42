import { defineEntity, type InferEntity, p } from '@mikro-orm/core';
import type { AccountId } from '../../domain/ids.ts';

/** A card of an account at the payment processor, as far as it may be stored. */
export const PaymentMethod = defineEntity({
  name: 'PaymentMethod',
  tableName: 'payment_methods',
  properties: {
    id: p.string().primary(),
    accountId: p.string().$type<AccountId>(),
    /** The processor's id. */
    paymentMethodId: p.string(),
    /** How it was added. */
    setupIntentId: p.string().nullable(),
    type: p.string(),
    fingerprint: p.string().nullable(),
    last4: p.string().fieldName('last4').nullable(),
    expMonth: p.integer().nullable(),
    expYear: p.integer().nullable(),
    brand: p.string().nullable(),
    billingName: p.string().nullable(),
    billingEmail: p.string().nullable(),
    billingCountry: p.string().nullable(),
    isDefault: p.boolean().default(false),
    isDeleted: p.boolean().default(false),
    /** The processor has checked it, with its owner where the bank asked for that. */
    isVerified: p.boolean().default(false),
    verifiedAt: p.datetime(3).nullable(),
    createdAt: p.datetime(3).onCreate(() => new Date()),
    updatedAt: p
      .datetime(3)
      .onCreate(() => new Date())
      .onUpdate(() => new Date()),
  },
});
export type PaymentMethod = InferEntity<typeof PaymentMethod>;
