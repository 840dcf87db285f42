import { afterAll, beforeAll, beforeEach, expect, test } from '@jest/globals';
import { post } from '../../../db/billing/ledger.ts';
import { keepPaymentIntent, recordCharge } from '../../../db/billing/payment-intents.ts';
import { findCustomer, findDefaultMethod } from '../../../db/billing/payment-methods.ts';
import { readLastReconciliation } from '../../../db/billing/reconciliations.ts';
import { newId } from '../../../db/core/new-id.ts';
import { query } from '../../../db/core/query.ts';
import { invoiceEntries } from '../../../domain/billing/ledger.ts';
import { PaymentProcessor } from '../../../integrations/payments/processor.ts';
import { commands } from '../../../ops/operator/admin/commands.ts';
import { startOptions } from '../../../platform/temporal/workflow-starts.ts';
import { ensureSchedule } from '../../../worker/schedules.ts';
import type { Json } from '../../api/contract-client.ts';
import { startApi, type TestApi } from '../../api/test-api.ts';
import { type ControlPlane, startControlPlane } from '../../support/control-plane.ts';
import { MemoryDriver } from '../../support/memory-driver.ts';
import { cards, TestProcessor } from '../../support/payment-processor.ts';
import { recordHistory } from '../../support/recorded-histories.ts';
import { until } from '../../support/until.ts';

/** A workflow on a real Temporal compares the ledger, charges and a payment processor on the network. */
let processor: TestProcessor;
let plane: ControlPlane;
let api: TestApi;
let direct: PaymentProcessor;
let charges: string[];

beforeAll(async () => {
  processor = await TestProcessor.start();
  plane = await startControlPlane({ driver: new MemoryDriver(), env: processor.env });
  const { orm, account, commands: sandboxes } = plane;
  api = await startApi({ env: processor.env, on: { orm, account, commands: sandboxes } });
  direct = PaymentProcessor.of(api.settings)!;
  const setup = (await api.send(api.root, 'POST', '/v1/payment/methods/setup-intent')).body.data;
  await processor.addCard(setup, cards.good);
  await api.send(api.root, 'POST', '/v1/payment/methods/check-status', { setup_intent_id: setup.setup_intent_id });
  // Charges of the last hours are left to the next night.
  processor.olderSeconds = 4 * 3600;
  processor.longestPage = 2;
  charges = [];
  for (const amount of ['10.00', '20.50', '0.99', '400.00', '5.00']) charges.push(await charge(amount));
  await setRows("update payment_intents set created_at = created_at - interval '4 hours'");
  await setRows("update invoices set status = 'paid', paid_at = now() where status <> 'paid'");
}, 120_000);
afterAll(async () => {
  await api?.stop();
  await plane?.stop();
  await processor?.stop();
});

async function charge(amount: string): Promise<string> {
  const { accountId } = plane.account;
  const em = plane.orm.em.fork();
  const customerId = (await findCustomer(em, accountId))!;
  const { paymentMethodId } = (await findDefaultMethod(em, accountId))!;
  const wanted = { key: `charge ${amount}`, customerId, paymentMethodId, amount, currency: 'USD', metadata: {} };
  const { paymentIntentId, status } = await direct.prepareCharge(wanted);
  const invoiceId = await invoice(amount);
  await keepPaymentIntent(em, {
    ...{ paymentIntentId, accountId, paymentMethodId, amount, currency: 'USD', status },
    ...{ intentType: 'invoice', invoiceId },
  });
  await recordCharge(em, await direct.confirmCharge({ key: `confirm ${amount}`, paymentIntentId, paymentMethodId }));
  return paymentIntentId;
}

/** An issued invoice with one line. @returns its id */
async function invoice(amount: string): Promise<string> {
  const { accountId } = plane.account;
  const invoiceId = newId('invoice');
  await setRows(
    `insert into invoices (invoice_id, account_id, kind, period_start, period_end, plan, currency, tax_rate)
     values (?, ?, 'period', now() + random() * interval '1 year', now() + interval '2 years', '{}', 'USD', 0)`,
    [invoiceId, accountId],
  );
  await setRows(
    `insert into invoice_lines (invoice_id, position, type, description, quantity, unit_price, amount)
     values (?, 1, 'subscription', 'Plan', 1, ?::numeric, ?::numeric)`,
    [invoiceId, amount, amount],
  );
  await plane.orm.em.fork().transactional(async (tx) => {
    await query(
      tx,
      `update invoices set subtotal = ?::numeric, total_amount = ?::numeric, status = 'open', issued_at = now(), due_at = now()
        where invoice_id = ?`,
      [amount, amount, invoiceId],
    );
    await post(tx, {
      ...{ accountId, currency: 'USD', kind: 'invoice_issued', description: '', reference: `invoice ${invoiceId}` },
      entries: invoiceEntries({ subtotal: amount, taxAmount: '0.00', totalAmount: amount }, 'USD'),
    });
  });
  return invoiceId;
}

const setRows = (sql: string, values: unknown[] = []) => plane.orm.em.fork().execute(sql, values);
/** One comparison. @returns its counts */
const compare = async (): Promise<Json> =>
  await plane.client.workflow.execute('reconciliation', startOptions('reconciliation', '', undefined));
const differences = async () => (await readLastReconciliation(plane.orm.em))!.differences;
const metric = async (name: string) => {
  const { text } = await scrape();
  return Number(new RegExp(`^${name} (\\S+)$`, 'm').exec(text)?.[1]);
};
async function scrape(): Promise<{ text: string }> {
  const reply = await api.app.inject({ url: '/metrics', headers: { 'x-api-key': plane.account.apiKey } });
  return { text: reply.body };
}

test('a schedule compares at once and every night at 02:30 UTC; equal records are no difference', async () => {
  expect(await metric('reconciliation_differences')).toBe(-1);
  await Promise.all([ensureSchedule(plane.client, 'reconciliation'), ensureSchedule(plane.client, 'reconciliation')]);
  await until(async () => (await readLastReconciliation(plane.orm.em)) !== null, 60_000);
  const last = (await readLastReconciliation(plane.orm.em))!;
  expect(last).toMatchObject({ readsProcessor: true, differences: [] });
  const { info } = await plane.client.schedule.getHandle('reconciliation').describe();
  expect(info.nextActionTimes.slice(0, 3).map((time) => time.toISOString().slice(11, 19))).toEqual(
    Array(3).fill('02:30:00'),
  );
  const lists = processor.requests.filter((each) => each === 'GET /v1/payment_intents');
  expect(lists.length).toBeGreaterThanOrEqual(3);
  expect(await metric('reconciliation_differences')).toBe(0);
  expect(Math.abs((await metric('reconciliation_ended_seconds')) - Date.now() / 1000)).toBeLessThan(600);
  await plane.client.schedule.getHandle('reconciliation').delete();
  if (process.env.RECORD_HISTORIES === '1') {
    let workflowId = '';
    const query = "WorkflowType = 'reconciliation'";
    for await (const each of plane.client.workflow.list({ query })) workflowId = each.workflowId;
    await recordHistory(plane.client, 'reconciliation', workflowId);
  }
});

beforeEach(async () => {
  await setRows('delete from reconciliations');
});

test('a processor that does not answer for a while is asked again', async () => {
  processor.failNext(/GET \/v1\/payment_intents$/, 'lost');
  expect(await compare()).toEqual({});
});

test('a refund that both sides and the ledger have is no difference; one that only the processor has is', async () => {
  const intent = charges[4]!;
  await processor.refund(intent, 200);
  expect(await compare()).toEqual({ charge_differs: 1 });
  expect(await differences()).toEqual([
    {
      ...{ kind: 'charge_differs', objectId: intent, accountId: plane.account.accountId },
      ...{ expected: 'succeeded, 5.000 USD', found: 'succeeded, 5.00 USD, 2.00 refunded' },
    },
  ]);
  await recordCharge(plane.orm.em, await direct.readCharge(intent));
  expect(await compare()).toEqual({});
  await setRows('update payment_intents set amount_refunded = 3 where payment_intent_id = ?', [intent]);
  expect(await compare()).toEqual({ charge_differs: 1, refund_not_booked: 1 });
  await setRows('update payment_intents set amount_refunded = 2 where payment_intent_id = ?', [intent]);
});

test('each difference is found, shown to the operator, and not repaired', async () => {
  const [changed, lost, unbooked, other] = charges as [string, string, string, string];
  const { accountId } = plane.account;
  await setRows('update payment_intents set amount = 11 where payment_intent_id = ?', [changed]);
  const [kept] = (await setRows('delete from payment_intents where payment_intent_id = ? returning *', [
    lost,
  ])) as unknown as Json[];
  await setRows(
    `insert into payment_intents (payment_intent_id, account_id, amount, currency, status, intent_type, created_at)
     values ('pi_invented', ?, 7, 'USD', 'succeeded', 'invoice', now() - interval '4 hours')`,
    [accountId],
  );
  await setRows("update payment_intents set status = 'processing' where payment_intent_id = ?", [other]);
  // Changes that no statement of the platform can make.
  await setRows(`
    alter table ledger_entries disable trigger all;
    alter table ledger_transactions disable trigger all;
    delete from ledger_entries where transaction_id = (select transaction_id from ledger_transactions
      where reference = 'charge ${unbooked}') and ledger_account = 'cash';
    alter table ledger_entries enable trigger all;
    alter table ledger_transactions enable trigger all`);
  const state = async () =>
    JSON.stringify([
      await setRows('select * from payment_intents order by 1'),
      await setRows('select * from ledger_entries order by 1, 4'),
      await setRows('select * from ledger_transactions order by 1'),
    ]);
  const before = await state();
  expect(await compare()).toEqual({
    booking_without_charge: 2,
    charge_differs: 2,
    charge_missing: 1,
    charge_not_booked: 3,
    charge_unknown: 1,
    ledger_not_balanced: 1,
  });
  expect(await state()).toBe(before);
  const found = new Map((await differences()).map((each) => [`${each.kind} ${each.objectId}`, each]));
  expect(found.get(`charge_differs ${changed}`)).toMatchObject({
    ...{ expected: 'succeeded, 11.000 USD', found: 'succeeded, 10.00 USD' },
  });
  expect(found.get(`charge_unknown ${lost}`)).toMatchObject({ accountId, found: 'succeeded, 20.50 USD' });
  expect(found.get(`charge_not_booked ${unbooked}`)).toMatchObject({ expected: '0.990 USD', found: 'not booked' });
  expect([...found.keys()].filter((key) => key.endsWith('pi_invented')).sort()).toEqual([
    'charge_missing pi_invented',
    'charge_not_booked pi_invented',
  ]);
  expect(await metric('reconciliation_differences')).toBe(10);
  const shown = (await commands['list-differences']!.run({ orm: plane.orm } as never, {})) as Json;
  expect(shown.differences).toHaveLength(10);
  // The next night, with the lost row back.
  expect(kept!.payment_intent_id).toBe(lost);
  const left = await setRows('select * from reconciled_charges');
  expect(left).toEqual([]);
});

test('an invoice that is not booked, not added up, or not known to the ledger is found', async () => {
  const kinds = ['invoice_not_booked', 'booking_without_invoice', 'invoice_lines_differ', 'receivable_differs'];
  const found = async () => {
    await compare();
    return (await differences())
      .filter(({ kind }) => kinds.includes(kind))
      .map(({ kind, objectId, expected, found: other }) => [kind, objectId, expected, other]);
  };
  const { accountId } = plane.account;
  const open = await invoice('30.00');
  expect(await found()).toEqual([]);
  await setRows(`
    alter table invoice_lines disable trigger all;
    update invoice_lines set amount = 29 where invoice_id = '${open}';
    alter table invoice_lines enable trigger all`);
  expect(await found()).toEqual([['invoice_lines_differ', open, '30.000', '29.000']]);
  await setRows(`
    alter table ledger_transactions disable trigger all;
    update ledger_transactions set reference = 'invoice inv-unknown' where reference = 'invoice ${open}';
    alter table ledger_transactions enable trigger all`);
  expect(await found()).toEqual([
    ['booking_without_invoice', expect.stringMatching(/^ltx-/), 'unknown', 'invoice inv-unknown'],
    ['invoice_lines_differ', open, '30.000', '29.000'],
    ['invoice_not_booked', open, '30.000, 30.000, 0.000, USD', 'not booked'],
  ]);
  await setRows("update invoices set status = 'paid', paid_at = now() where invoice_id = ?", [open]);
  expect(await found()).toContainEqual(['receivable_differs', `${accountId} USD`, '0', '30.000']);
});
