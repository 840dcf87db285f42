import { spawnSync } from 'node:child_process';
import path from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { type Invoice, listInvoices } from '../../../db/billing/invoices.ts';
import { changeCredit } from '../../../db/billing/ledger.ts';
import { setDefaultMethod } from '../../../db/billing/payment-methods.ts';
import { changePlan } from '../../../db/billing/plan-changes.ts';
import { findSubscription, setTaxRate } from '../../../db/billing/subscriptions.ts';
import { newId } from '../../../db/core/new-id.ts';
import { startOptions } from '../../../platform/temporal/workflow-starts.ts';
import { paymentPossibleSignal } from '../../../workflows/billing/period.ts';
import { addDefaultCard } from '../../support/added-card.ts';
import { startTimeSkippingPlane } from '../../support/control-plane.ts';
import { ledgerSums } from '../../support/ledger-sums.ts';
import { MemoryDriver } from '../../support/memory-driver.ts';
import { cards, TestProcessor } from '../../support/payment-processor.ts';
import { recordHistory } from '../../support/recorded-histories.ts';

const anchor = new Date('2027-01-31T10:00:00Z');
const freeUntil = new Date('2027-02-10T00:00:00Z');

let processor: TestProcessor;
let skipping: Awaited<ReturnType<typeof startTimeSkippingPlane>>;
beforeAll(async () => {
  processor = await TestProcessor.start();
  skipping = await startTimeSkippingPlane(new MemoryDriver(), processor.env);
}, 120_000);
afterAll(async () => {
  await skipping?.stop();
  await processor?.stop();
});

const sql = (text: string, values: unknown[] = []) => skipping.plane.orm.em.fork().execute(text, values);
const account = () => skipping.plane.account.accountId;
const subscription = async () => (await findSubscription(skipping.plane.orm.em, account()))!;

/** Lets the time pass until a given moment. */
async function until(text: string): Promise<Date> {
  const { environment } = skipping;
  const at = new Date(text);
  const waitMs = at.getTime() - (await environment.currentTimeMs());
  expect([text, waitMs > 0]).toEqual([text, true]);
  await environment.sleep(waitMs);
  return at;
}

interface Used {
  type: string;
  start: string;
  amount: string;
  price: string;
}

/** Usage on every third day until 2029, in whole hours. Prices change once. */
async function addUsage(): Promise<Used[]> {
  const { accountId, userId, projectId } = skipping.plane.account;
  const used: Used[] = [];
  const kinds = [
    ['cpu_seconds', 7_200_000n, '0.000014', '0.000016'],
    ['ram_gb_seconds', 7_372_800_000n, '0.0000045', '0.0000045'],
    ['traffic_gb', 3_221_225_472n, '0.09', '0.085'],
  ] as const;
  for (let day = 0; day < 720; day += 3) {
    const start = new Date(anchor.getTime() + day * 86_400_000 + ((day * 7) % 23) * 3_600_000);
    for (const [type, most, price, later] of kinds) {
      const amount = String((most * BigInt((day % 11) + 1)) / 11n);
      used.push({ type, start: start.toISOString(), amount, price: day < 365 ? price : later });
    }
  }
  for (const { type, start, amount, price } of used) {
    await sql(
      `insert into usage_events (resource_id, usage_type, period_start, period_end, account_id, user_id, project_id, amount, unit_price)
       values ('sbx-years', ?, ?::timestamptz, ?::timestamptz + interval '1 hour', ?, ?, ?, ?::bigint, ?::numeric)`,
      [type, start, start, accountId, userId, projectId, amount, price],
    );
  }
  return used;
}

async function change(planName: string, at: Date): Promise<void> {
  const { plane } = skipping;
  const accountId = account();
  const changeId = await changePlan(plane.orm.em, plane.plans, { accountId, planName, at, billed: true });
  if (changeId === null) return;
  await plane.client.workflow.execute('planChange', startOptions('planChange', accountId, { accountId, changeId }));
}

const invoices = async (): Promise<Invoice[]> => {
  const listing = { sortBy: 'created_at', sortOrder: 'asc', limit: 100, offset: 0, after: null } as const;
  return (await listInvoices(skipping.plane.orm.em.fork(), { rows: 'account', accountId: account() }, listing))
    .invoices;
};

test('an independent program computes the same invoices for two years of an account', async () => {
  const { environment, plane } = skipping;
  const { orm, client } = plane;
  const accountId = account();
  const card = (number: string) => addDefaultCard({ orm, processor }, accountId, number);
  const record = async (name: string, workflowId: string) => {
    if (process.env.RECORD_HISTORIES === '1') await recordHistory(client, name, workflowId);
  };
  const used = await addUsage();
  // Accounts of operators are not charged.
  await sql("update users set role = 'user'");
  await sql('update subscriptions set anchor = ?, period_start = ?, period_end = ? where account_id = ?', [
    ...[anchor, anchor, new Date('2027-02-28T10:00:00Z'), accountId],
  ]);
  await orm.em.fork().transactional((tx) => setTaxRate(tx, accountId, '0.19'));
  await until('2027-02-01T00:00:00Z');
  await client.workflow.start('billing', startOptions('billing', accountId, { accountId }));
  const billing = client.workflow.getHandle(`${accountId}/billing`);

  // An upgrade whose card is declined changes nothing.
  await until('2027-02-09T00:00:00Z');
  await card(cards.declinedLater);
  await change('pro', new Date(await environment.currentTimeMs()));
  await record('plan-change-declined', `${accountId}/plan-change`);
  expect((await subscription()).plan.planName).toBe('hobby');
  expect((await invoices()).map(({ status }) => status)).toEqual(['void']);
  expect(await processor.charges()).toEqual([]);

  const goodCard = await card(cards.good);
  await until(freeUntil.toISOString());
  await change('pro', freeUntil);
  await record('plan-change-paid', `${accountId}/plan-change`);
  expect((await subscription()).plan.planName).toBe('pro');
  expect(await processor.charges()).toHaveLength(1);

  // The balance pays for an upgrade completely, and for a part of an invoice.
  const june = await until('2027-06-15T12:00:00Z');
  const transactionId = newId('ledgerTransaction');
  await changeCredit(orm.em, {
    transactionId,
    accountId,
    action: 'grant',
    amount: '150.00',
    currency: 'USD',
    description: 'x',
  });
  await change('team', june);
  expect((await subscription()).plan.planName).toBe('team');
  expect((await invoices()).at(-1)).toMatchObject({ kind: 'plan_change', status: 'paid', paymentIntentId: null });

  await record('billing-years', `${accountId}/billing`);

  // A downgrade is planned, cancelled, and planned again.
  await change('pro', await until('2027-09-10T12:00:00Z'));
  expect(await subscription()).toMatchObject({ plan: { planName: 'team' }, plannedPlanName: 'pro' });
  await change('team', await until('2027-09-11T12:00:00Z'));
  expect((await subscription()).plannedPlanName).toBeNull();
  await change('pro', await until('2027-09-12T12:00:00Z'));
  await until('2027-09-30T10:30:00Z');
  expect(await subscription()).toMatchObject({ plan: { planName: 'pro' }, plannedPlanName: null });

  // Four more attempts, on days 1, 3, 5 and 7. Then the account is past due until a card pays.
  await until('2027-12-20T00:00:00Z');
  await card(cards.declinedLater);
  const attempts = async () => (await invoices()).filter(({ kind }) => kind === 'period').at(-1)!.chargeAttempts;
  for (const [at, expected] of [
    ['2027-12-31T12:00:00Z', 1],
    ['2028-01-01T12:00:00Z', 2],
    ['2028-01-02T12:00:00Z', 2],
    ['2028-01-03T12:00:00Z', 3],
    ['2028-01-05T12:00:00Z', 4],
  ] as const) {
    await until(at);
    expect([at, await attempts(), (await subscription()).status]).toEqual([at, expected, 'active']);
  }
  await until('2028-01-07T12:00:00Z');
  expect([await attempts(), (await subscription()).status]).toEqual([5, 'past_due']);
  expect(await sql("select count(*)::int as n from notifications where type = 'subscription_past_due'")).toEqual([
    { n: 1 },
  ]);
  await expect(plane.admit()).rejects.toMatchObject({ code: 'subscription_past_due' });
  await until('2028-01-20T00:00:00Z');
  await setDefaultMethod(orm.em.fork(), accountId, goodCard);
  await billing.signal(paymentPossibleSignal, { accountId });
  await environment.sleep('2 minutes');
  expect((await subscription()).status).toBe('active');
  expect((await plane.admit()).status).toBe('created');
  await sql("update sandboxes set status = 'terminated', holds_compute = false, holds_disk = false");

  // The reply is lost after the money has moved: the charge is read and not repeated.
  processor.failNext(/^POST \/v1\/payment_intents\/\w+\/confirm$/, 'unanswered');
  await until('2029-01-02T00:00:00Z');
  const all = await invoices();
  const periods = all.filter(({ kind }) => kind === 'period');
  expect(periods.filter(({ status }) => status !== 'draft')).toHaveLength(23);
  expect(periods.map(({ periodStart }) => periodStart.toISOString().slice(0, 10))).toEqual(
    expect.arrayContaining(['2027-02-28', '2028-02-29', '2028-03-31', '2028-04-30']),
  );
  expect(all.filter(({ status }) => status !== 'paid' && status !== 'void')).toEqual([]);

  await record('billing-years', `${accountId}/billing`);
  const sums = await ledgerSums(orm.em, accountId);
  const total = await sql('select sum(amount)::text as total from ledger_entries');
  expect(Number((total[0] as { total: string }).total)).toBe(0);
  expect(sums.find(({ ledgerAccount }) => ledgerAccount === 'receivable')?.sum).toMatch(/^0(\.0+)?$/);
  const ids = (await processor.charges()).map((each) => each.payment_intent);
  expect(new Set(ids).size).toBe(ids.length);
  const given = {
    anchor,
    free_until: freeUntil,
    usage: used,
    charges: (await processor.charges()).map(({ amount }) => amount),
    invoices: all.map((invoice) => ({
      ...{ id: invoice.invoiceId, kind: invoice.kind, status: invoice.status, tax_rate: invoice.taxRate },
      ...{ start: invoice.periodStart, end: invoice.periodEnd, price: invoice.plan.priceAmount },
      ...{ subtotal: invoice.subtotal, tax: invoice.taxAmount, total: invoice.totalAmount },
      ...{ paid_from_balance: invoice.paidFromBalance, lines: invoice.lines.map(({ amount }) => amount) },
    })),
  };
  const program = path.join(import.meta.dirname, 'independent-sums.py');
  const checked = spawnSync('python3', [program], { input: JSON.stringify(given), encoding: 'utf8' });
  expect([checked.stderr, checked.stdout]).toEqual([
    '',
    expect.stringMatching(/^\d+ invoices, [\d.]+ paid, [\d.]+ charged\n$/),
  ]);
  if (process.env.SHOW_INVOICES === '1')
    process.stdout.write(`${checked.stdout}${JSON.stringify(given.invoices, null, 1)}\n`);
}, 600_000);
