import { Account } from '../../../db/accounts/account.entity.ts';
import type { PaymentMethod } from '../../../db/billing/payment-method.entity.ts';
import {
  addSetup,
  findCustomer,
  findMethodOfSetup,
  findSetup,
  keepCustomer,
  keepMethod,
  requireMethodLimit,
} from '../../../db/billing/payment-methods.ts';
import type { Orm } from '../../../db/orm.ts';
import type { AccountId } from '../../../domain/ids.ts';
import type { PaymentProcessor } from '../../../integrations/payments/processor.ts';

interface Setups {
  orm: Orm;
  processor: PaymentProcessor;
}

/**
 * Begins a setup that adds a card to an account.
 * @throws {AppError} `payment_method_limit_reached`, `too_many_requests`
 * @throws {ProcessorUnavailableError}
 */
export async function beginSetup(
  { orm, processor }: Setups,
  accountId: AccountId,
): Promise<{ setupIntentId: string; clientSecret: string }> {
  await requireMethodLimit(orm.em, accountId);
  const customerId = (await findCustomer(orm.em, accountId)) ?? (await makeCustomer({ orm, processor }, accountId));
  const begun = await processor.createSetup(customerId);
  await addSetup(orm.em, accountId, begun.setupIntentId);
  return begun;
}

async function makeCustomer({ orm, processor }: Setups, accountId: AccountId): Promise<string> {
  const { email } = await orm.em.fork().findOneOrFail(Account, { accountId });
  return keepCustomer(orm.em, accountId, await processor.createCustomer({ accountId, email }));
}

/**
 * Stores the added card when the processor has verified it. The customer's request and the processor's notification
 * both call this, in any order or concurrently.
 * @returns null when the processor has not verified the card, or the setup is not one of this platform
 * @throws {ProcessorUnavailableError}
 */
export async function keepFinishedSetup(
  { orm, processor }: Setups,
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
