import type { EntityManager } from '@mikro-orm/postgresql';
import { keepPaymentIntent } from '../../db/billing/payment-intents.ts';
import { keepMethod } from '../../db/billing/payment-methods.ts';
import { newId } from '../../db/core/new-id.ts';
import type { AccountId } from '../../domain/ids.ts';

/**
 * Adds a card and a charge of an account. @returns the processor's id of both, because a test that replaces `{id}` has
 * only one
 */
export async function addPayments(em: EntityManager, accountId: AccountId): Promise<string> {
  const id = `pm_${newId('request').slice(4)}`;
  const unknown = { fingerprint: null, billingName: null, billingEmail: null, billingCountry: null };
  const card = { type: 'card', last4: '4242', expMonth: 12, expYear: 2040, brand: 'visa' };
  await keepMethod(em, { accountId, setupIntentId: `seti_${id}` }, { ...unknown, ...card, paymentMethodId: id });
  await keepPaymentIntent(em, {
    ...{ paymentIntentId: id, accountId, paymentMethodId: id, intentType: 'invoice', invoiceId: null },
    ...{ amount: '12.34', currency: 'USD', status: 'requires_confirmation' },
  });
  return id;
}
