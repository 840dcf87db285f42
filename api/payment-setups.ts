import type { PaymentMethod } from '../db/entities/payment-method.ts';
import type { Orm } from '../db/orm.ts';
import { findMethodOfSetup, findSetup, keepMethod } from '../db/repositories/payment-methods.ts';
import type { PaymentProcessor } from '../payments/processor.ts';

/**
 * Keeps the card that was added, once the processor has verified it. The customer's question and the processor's
 * notification both come here, in any order and at the same time.
 * @returns null: the processor has not verified it, or it was begun elsewhere
 * @throws {ProcessorUnavailableError}
 */
export async function keepFinishedSetup(
  { orm, processor }: { orm: Orm; processor: PaymentProcessor },
  setupIntentId: string,
): Promise<PaymentMethod | null> {
  const kept = await findMethodOfSetup(orm.em, setupIntentId);
  if (kept) return kept;
  const begun = await findSetup(orm.em, setupIntentId);
  if (!begun) return null;
  const { status, customerId, paymentMethodId } = await processor.readSetup(setupIntentId);
  if (status !== 'succeeded' || paymentMethodId === null || customerId !== begun.customerId) return null;
  const { customerId: _, ...method } = await processor.readMethod(paymentMethodId);
  return keepMethod(orm.em, { accountId: begun.accountId, setupIntentId }, method);
}
