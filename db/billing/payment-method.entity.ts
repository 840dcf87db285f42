import { defineEntity, type InferEntity, p } from '@mikro-orm/core';
import type { AccountId } from '../../domain/ids.ts';

/** The storable fields of an account's card at the payment processor. */
export const PaymentMethod = defineEntity({
  name: 'PaymentMethod',
  tableName: 'payment_methods',
  properties: {
    id: p.string().primary(),
    accountId: p.string().$type<AccountId>(),
    /** The processor's id. */
    paymentMethodId: p.string(),
    /** The setup that added it. */
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
    /** The processor has verified the card, together with its owner if the bank required that. */
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
