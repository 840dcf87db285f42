import { createAccount } from '../../db/accounts/accounts.ts';
import { startBilling } from '../../db/billing/subscriptions.ts';
import type { Orm } from '../../db/orm.ts';
import { addDefaultCard } from '../support/added-card.ts';
import { addUsage, ageAccount } from '../support/added-usage.ts';
import { cards, type TestProcessor } from '../support/payment-processor.ts';
import { until } from '../support/until.ts';
import type { Json, ReferenceRecorder } from './reference-recorder.ts';

interface Parts {
  recorder: ReferenceRecorder;
  orm: Orm;
  processor: TestProcessor;
}

/** The steps of `reference.test.ts` for plans, invoices, payments and budgets. */
export async function showMoney(parts: Parts): Promise<void> {
  await showCredit(parts);
  await showCards(parts);
  // Operators are not charged, so the rest uses a customer's account.
  const authorization = await addCustomer(parts);
  await showPayments(parts, authorization);
  await showSubscription(parts, authorization);
  await showBudget(parts, authorization);
  await showPeriods(parts, authorization);
}

async function showCredit({ recorder }: Parts): Promise<void> {
  await recorder.show('changeCredits');
  await recorder.show('getBalance');
  await recorder.show('listBalanceChanges');
}

async function showCards({ recorder, processor }: Parts): Promise<void> {
  await recorder.show('getPaymentProcessor', { authorization: null });
  await recorder.show('linkToAddPaymentMethod');
  const setup = await recorder.show('setUpPaymentMethod');
  await processor.addCard(setup, cards.good);
  const { method } = await recorder.show('checkPaymentMethod', { body: { setup_intent_id: setup.setup_intent_id } });
  await recorder.show('listPaymentMethods');
  await recorder.show('getPaymentMethodsStatus');
  await recorder.show('setDefaultPaymentMethod', { body: { payment_method_id: method.payment_method_id } });
  const notice = await processor.notice('setup_intent.succeeded', setup.setup_intent_id);
  const headers = { 'stripe-signature': notice.signature };
  await recorder.show('receiveProcessorNotice', { rawBody: notice.body, headers, authorization: null });
  await recorder.show('deletePaymentMethod', { params: { id: method.payment_method_id } });
}

/**
 * Adds an account with a card, whose first period ended two days ago. The platform issues and charges the invoice of
 * that period.
 * @returns the `Authorization` of its requests
 */
async function addCustomer({ recorder, orm, processor }: Parts): Promise<string> {
  const wanted = {
    email: 'office@example.com',
    displayName: 'Difference Engines',
    planName: 'pro',
    role: 'user',
  } as const;
  const { accountId, apiKey } = await orm.em.fork().transactional((tx) => createAccount(tx, wanted));
  await ageAccount(orm.em, accountId, '1 month 2 days');
  const weekMs = 7 * 86_400_000;
  await addUsage(orm.em, accountId, '3.21', new Date(Date.now() - weekMs));
  await addUsage(orm.em, accountId, '85');
  await addDefaultCard({ orm, processor }, accountId, cards.good);
  await orm.em.fork().transactional(async (tx) => startBilling(tx, accountId));
  const authorization = `Api-Key ${apiKey}`;
  const invoices = async (): Promise<Json[]> =>
    (await recorder.call('listInvoices', { authorization })).body.data.invoices;
  await until(async () => (await invoices()).some(({ status }) => status === 'paid'));
  return authorization;
}

async function showPayments({ recorder }: Parts, authorization: string): Promise<void> {
  const { payment_id, payment_intent_id } = await recorder.show('getSubscriptionPaymentByPeriod', { authorization });
  await recorder.show('getInvoice', { params: { invoice_id: payment_id }, authorization });
  await recorder.show('getReceipt', { params: { invoice_id: payment_id }, query: { format: 'html' }, authorization });
  await recorder.show('listPaymentIntents', { authorization });
  await recorder.show('getPaymentIntent', { params: { id: payment_intent_id }, authorization });
  await recorder.show('refundPaymentIntent', { params: { id: payment_intent_id } });
}

async function showSubscription({ recorder }: Parts, authorization: string): Promise<void> {
  await recorder.show('getSubscription', { authorization });
  const { change_status: status } = await recorder.show('changeSubscription', { authorization });
  expect(status).toBe('done');
  await recorder.show('listSubscriptionHistory', { authorization });
}

async function showBudget({ recorder }: Parts, authorization: string): Promise<void> {
  await recorder.show('createBudget', { authorization });
  await recorder.show('getBudget', { authorization });
  await recorder.show('getBudgetStatus', { authorization });
  const messages = async (): Promise<Json[]> =>
    (await recorder.call('listBudgetMessages', { authorization })).body.data.messages;
  await until(async () => (await messages()).some(({ email_sent }) => email_sent));
  await recorder.show('listBudgetMessages', { authorization });
  await recorder.show('updateBudget', { authorization });
  await recorder.show('deleteBudget', { authorization });
}

async function showPeriods({ recorder }: Parts, authorization: string): Promise<void> {
  await recorder.show('generateInvoice', { authorization });
  await recorder.show('listInvoices', { authorization });
  await recorder.show('getCurrentBilling', { authorization });
  await recorder.show('listBillingPeriods', { authorization });
  await recorder.show('getBillingHistory', { authorization });
}
