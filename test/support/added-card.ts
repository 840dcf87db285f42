import { addSetup, keepCustomer, keepMethod, setDefaultMethod } from '../../db/billing/payment-methods.ts';
import type { Orm } from '../../db/orm.ts';
import type { AccountId } from '../../domain/ids.ts';
import { PaymentProcessor } from '../../integrations/payments/processor.ts';
import { loadSettings } from '../../platform/config/settings.ts';
import type { TestProcessor } from './payment-processor.ts';

/** The platform's client of a payment processor in tests. */
export function platformProcessor(processor: TestProcessor): PaymentProcessor {
  const settings = { PLATFORM_SECRET_KEY: Buffer.alloc(32, 7).toString('base64'), DATABASE_URL: 'postgres://unused' };
  return PaymentProcessor.of(loadSettings({ ...settings, ...processor.env }))!;
}

/** Adds a card to an account as its default card, through the processor. */
export async function addDefaultCard(
  { orm, processor }: { orm: Orm; processor: TestProcessor },
  accountId: AccountId,
  number: string,
): Promise<string> {
  const platform = platformProcessor(processor);
  const made = await platform.createCustomer({ accountId, email: 'root@example.com' });
  const customerId = await keepCustomer(orm.em, accountId, made);
  const { setupIntentId, clientSecret } = await platform.createSetup(customerId);
  await addSetup(orm.em, accountId, setupIntentId);
  await processor.addCard({ setup_intent_id: setupIntentId, client_secret: clientSecret }, number);
  const { paymentMethodId } = await platform.readSetup(setupIntentId);
  const { customerId: _, ...method } = await platform.readMethod(paymentMethodId!);
  const kept = await keepMethod(orm.em, { accountId, setupIntentId }, method);
  await setDefaultMethod(orm.em.fork(), accountId, kept.id);
  return paymentMethodId!;
}
