import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import proto from '@temporalio/proto';
import { MockActivityEnvironment } from '@temporalio/testing';
import { chargeInvoice } from '../../../activities/billing/invoice-charge.ts';
import { createBillingActivities } from '../../../activities/billing/periods.ts';
import { setTaxRate, startBilling } from '../../../db/billing/subscriptions.ts';
import { requestTimeoutMs } from '../../../integrations/payments/processor.ts';
import { deriveSecrets } from '../../../platform/config/secrets.ts';
import { EncryptionCodec } from '../../../platform/temporal/payload-codec.ts';
import { paymentPossibleSignal } from '../../../workflows/billing/period.ts';
import { SecretSearch } from '../../attacks/secret-search.ts';
import { addDefaultCard } from '../../support/added-card.ts';
import { type ControlPlane, startControlPlane, testSecretKey } from '../../support/control-plane.ts';
import { farFromMidnight } from '../../support/far-from-midnight.ts';
import { payloadsIn } from '../../support/history-payloads.ts';
import { ledgerSums } from '../../support/ledger-sums.ts';
import { MailServer } from '../../support/mail-server.ts';
import { MemoryDriver } from '../../support/memory-driver.ts';
import { cards, TestProcessor } from '../../support/payment-processor.ts';
import { recordHistory } from '../../support/recorded-histories.ts';
import { until } from '../../support/until.ts';
import type { Json } from '../contract-client.ts';
import { type Caller, startApi, type TestApi } from '../test-api.ts';

let processor: TestProcessor;
let mails: MailServer;
let plane: ControlPlane;
let api: TestApi;
beforeAll(async () => {
  processor = await TestProcessor.start();
  mails = await MailServer.start();
  const env = { ...processor.env, SMTP_URL: mails.url, PLATFORM_MAIL_FROM: 'no-reply@platform.test' };
  plane = await startControlPlane({ driver: new MemoryDriver(), env });
  api = await startApi({ on: plane, env: { ...processor.env, PLATFORM_RATE_LIMIT_PER_KEY: '0' } });
}, 300_000);
afterAll(async () => {
  await api.stop();
  await plane.stop();
  await mails.stop();
  await processor.stop();
});

const address = '/v1/user-management/account/subscription';
const choose = (caller: Caller, plan: string) => api.send(caller, 'POST', address, { plan_name: plan });
const read = async (caller: Caller): Promise<Json> => (await api.send(caller, 'GET', address)).body.data.subscription;
const listInvoices = async (caller: Caller): Promise<Json[]> =>
  (await api.send(caller, 'GET', '/v1/billing/invoices')).body.data.invoices;
const grant = (caller: Caller, amount: number) =>
  api.send(api.root, 'POST', `/v1/accounts/${caller.accountId}/credits`, { action: 'grant', amount });
const addCard = (caller: Caller, number: string) =>
  addDefaultCard({ orm: plane.orm, processor }, caller.accountId, number);
const listCharges = async (caller: Caller) => {
  const { body } = await api.send(caller, 'GET', '/v1/payment/intents');
  const ids = body.data.payment_intents.map((each: Json) => each.payment_intent_id);
  return (await processor.charges()).filter((charge) => ids.includes(charge.payment_intent));
};
const readEvents = async (caller: Caller, family: string) => {
  const rows = await api.orm.em
    .fork()
    .execute('select type from events where account_id = ? and type like ? order by created_at, event_id', [
      caller.accountId,
      `${family}.%`,
    ]);
  return (rows as unknown as { type: string }[]).map(({ type }) => type);
};

/** The charge that a request confirms. Null: it confirms none. */
const confirmedBy = (name: string) => /^POST \/v1\/payment_intents\/(\w+)\/confirm$/.exec(name)?.[1] ?? null;

describe('an upgrade', () => {
  test('needs a balance or a card', async () => {
    const caller = await api.addAccount();
    const refused = await choose(caller, 'pro');
    expect([refused.status, refused.body.code]).toEqual([402, 'payment_required']);
    await grant(caller, 0.01);
    expect((await choose(caller, 'pro')).status).toBe(402);
    expect((await read(caller)).plan.plan_name).toBe('hobby');
    expect(await listInvoices(caller)).toEqual([]);
  });

  test('is charged to the card for the rest of the period, once', async () => {
    const caller = await api.addAccount();
    await addCard(caller, cards.good);
    // The money moves, and the reply is lost.
    processor.failNext(/^POST \/v1\/payment_intents\/\w+\/confirm$/, 'unanswered');
    const { status, body } = await choose(caller, 'pro');
    expect([status, body.data.change_status, body.data.subscription.plan.plan_name]).toEqual([200, 'done', 'pro']);
    const [invoice, ...others] = await listInvoices(caller);
    expect(others).toEqual([]);
    expect(invoice).toMatchObject({ status: 'paid', has_receipt: true, tax_amount: 0, paid_from_balance: 0 });
    expect(invoice.line_items.map((line: Json) => line.type)).toEqual(['subscription']);
    const charges = await listCharges(caller);
    expect(charges.map(({ amount }) => amount / 100)).toEqual([invoice.total_amount]);
    // The period began just before.
    expect(invoice.total_amount).toBeGreaterThan(48.9);
    expect(await readEvents(caller, 'subscription')).toEqual(['subscription.created', 'subscription.upgraded']);
    expect(await readEvents(caller, 'payment')).toEqual(['payment.method_attached', 'payment.succeeded']);
    const { history } = (await api.send(caller, 'GET', `${address}/history`)).body.data;
    expect(history).toEqual([
      expect.objectContaining({
        ...{ old_plan_name: 'hobby', new_plan_name: 'pro', change_reason: 'upgraded', invoice_id: invoice.invoice_id },
        ...{ old_plan_price: 0, new_plan_price: 49, prorated_refund_amount: 0 },
      }),
    ]);
    // The new limits are effective at once.
    const sandbox = await api.send(caller, 'POST', '/v1/sandboxes', { cpu_count: 8 });
    expect(sandbox.status).toBe(201);
    for (const { sum, ledgerAccount } of await ledgerSums(api.orm.em, caller.accountId)) {
      expect([ledgerAccount, Math.abs(Number(sum))]).toEqual([
        ledgerAccount,
        ledgerAccount === 'receivable' ? 0 : invoice.total_amount,
      ]);
    }
  });

  test('takes the balance first, and the card for the rest', async () => {
    const caller = await api.addAccount();
    await grant(caller, 10);
    await addCard(caller, cards.good);
    expect((await choose(caller, 'pro')).status).toBe(200);
    const [invoice] = await listInvoices(caller);
    expect(invoice.paid_from_balance).toBe(10);
    const [charge] = await listCharges(caller);
    expect(charge.amount / 100).toBeCloseTo(invoice.total_amount - 10, 6);
    await grant(caller, 1000);
    expect((await choose(caller, 'team')).body.data.subscription.plan.plan_name).toBe('team');
    expect(await listCharges(caller)).toHaveLength(1);
    expect((await api.send(caller, 'GET', '/v1/billing/balance')).body.data.balance).toBeLessThan(1000);
  });

  test('whose charge fails is reverted, with the balance that it used', async () => {
    const caller = await api.addAccount();
    await grant(caller, 10);
    await addCard(caller, cards.declinedLater);
    const { status, body } = await choose(caller, 'pro');
    expect([status, body.code]).toEqual([402, 'payment_failed']);
    expect((await read(caller)).plan.plan_name).toBe('hobby');
    expect((await listInvoices(caller)).map(({ status: each }) => each)).toEqual(['void']);
    expect((await api.send(caller, 'GET', '/v1/billing/balance')).body.data.balance).toBe(10);
    expect(await listCharges(caller)).toEqual([]);
    const sums = await ledgerSums(api.orm.em, caller.accountId);
    expect(sums.filter(({ ledgerAccount }) => ['receivable', 'revenue'].includes(ledgerAccount))).toEqual(
      expect.arrayContaining([expect.objectContaining({ sum: '0.000' })]),
    );
    // Another card then pays for it.
    await addCard(caller, cards.good);
    expect((await choose(caller, 'pro')).status).toBe(200);
    expect(await listCharges(caller)).toHaveLength(1);
  });

  test('is done once by concurrent requests', async () => {
    const caller = await api.addAccount();
    await addCard(caller, cards.good);
    const replies = await Promise.all(Array.from({ length: 5 }, () => choose(caller, 'pro')));
    const done = replies.filter(({ status }) => status === 200);
    expect(done.length).toBeGreaterThanOrEqual(1);
    for (const { status, body } of replies) {
      if (status !== 200) expect([status, body.code]).toEqual([409, 'plan_change_in_progress']);
    }
    expect(await listCharges(caller)).toHaveLength(1);
  });

  test.each([
    ['preparing it is lost', /^POST \/v1\/payment_intents$/, 'lost'],
    ['preparing it is not answered', /^POST \/v1\/payment_intents$/, 'unanswered'],
    ['confirming it is lost', /^POST \/v1\/payment_intents\/\w+\/confirm$/, 'lost'],
  ] as const)('is charged once when %s', async (_name, call, kind) => {
    const caller = await api.addAccount();
    await addCard(caller, cards.good);
    processor.failNext(call, kind);
    expect((await choose(caller, 'pro')).status).toBe(200);
    const [invoice] = await listInvoices(caller);
    expect((await listCharges(caller)).map(({ amount }) => amount / 100)).toEqual([invoice.total_amount]);
    const { customer } = await processor.get(`/v1/payment_intents/${invoice.payment_reference}`);
    expect((await processor.charges()).filter((charge) => charge.customer === customer)).toHaveLength(1);
  });

  test('is charged once by several concurrent workers', async () => {
    const caller = await api.addAccount();
    await addCard(caller, cards.good);
    const answer = choose(caller, 'pro');
    await until(async () => (await listInvoices(caller)).length > 0);
    const [invoice] = await listInvoices(caller);
    const deps = { orm: plane.orm, processor: api.dependencies.paymentProcessor };
    const attempts = Array.from({ length: 4 }, () => chargeInvoice(deps, invoice.invoice_id, new Date()));
    expect(new Set(await Promise.all(attempts))).toEqual(new Set(['succeeded']));
    expect((await answer).status).toBe(200);
    expect(await listCharges(caller)).toHaveLength(1);
  });

  test('is charged once, by another charge, when the first was cancelled at the processor', async () => {
    const caller = await api.addAccount();
    await addCard(caller, cards.good);
    let cancelledId = '';
    processor.atRequest = async ({ when, name }) => {
      const id = confirmedBy(name);
      if (when !== 'arrived' || id === null || (cancelledId !== '' && id !== cancelledId)) return null;
      if (cancelledId === '') await processor.cancel(id);
      cancelledId = id;
      return 'cut';
    };
    const answer = choose(caller, 'pro');
    await until(() => cancelledId !== '');
    expect((await answer).status).toBe(200);
    processor.atRequest = async () => null;
    const [invoice] = await listInvoices(caller);
    const charges = await listCharges(caller);
    expect(charges.map(({ amount }) => amount / 100)).toEqual([invoice.total_amount]);
    expect(charges[0].payment_intent).not.toBe(cancelledId);
    expect(processor.requests.filter((name) => name.includes('/null'))).toEqual([]);
  });

  test('is charged when the balance that would have paid for it is spent in the meantime', async () => {
    const caller = await api.addAccount();
    await addCard(caller, cards.good);
    let [isGranted, isCancelled] = [false, false];
    const change = (action: string) =>
      api.send(api.root, 'POST', `/v1/accounts/${caller.accountId}/credits`, { action, amount: 1000 });
    processor.atRequest = async ({ when, name }) => {
      if (when === 'arrived' && confirmedBy(name) !== null && !isCancelled) {
        if (!isGranted) await change('grant');
        isGranted = true;
        return 'cut';
      }
      if (when === 'done' && name.endsWith('/cancel')) {
        isCancelled = true;
        await change('refund');
      }
      return null;
    };
    const { status } = await choose(caller, 'pro');
    processor.atRequest = async () => null;
    expect([status, isCancelled]).toEqual([200, true]);
    const [invoice] = await listInvoices(caller);
    expect(invoice.paid_from_balance).toBe(0);
    expect((await listCharges(caller)).map(({ amount }) => amount / 100)).toEqual([invoice.total_amount]);
  });

  test('gives up a call of the processor as soon as Temporal gives up the activity', async () => {
    const caller = await api.addAccount();
    await addCard(caller, cards.good);
    const [release, confirming] = [Promise.withResolvers<null>(), Promise.withResolvers<null>()];
    const asked = Promise.withResolvers<() => boolean>();
    processor.atRequest = ({ when, name, isGone }) => {
      if (when === 'arrived' && confirmedBy(name) !== null) confirming.resolve(null);
      else if (name.startsWith('GET /v1/payment_intents/')) asked.resolve(isGone);
      else return Promise.resolve(null);
      return release.promise;
    };
    const answer = choose(caller, 'pro');
    await confirming.promise;
    const [invoice] = await listInvoices(caller);
    const environment = new MockActivityEnvironment();
    const { chargeInvoice: charge } = createBillingActivities({
      ...{ orm: plane.orm, plans: plane.plans, processor: api.dependencies.paymentProcessor, billed: true },
    });
    const outcome = environment.run(charge, { invoiceId: invoice.invoice_id, atMs: Date.now() });
    const isGone = await asked.promise;
    environment.cancel();
    // Earlier than the time limit of the call itself.
    await until(isGone, requestTimeoutMs / 2);
    expect(await outcome).toBe('unknown');
    processor.atRequest = async () => null;
    release.resolve(null);
    expect((await answer).status).toBe(200);
    expect(await listCharges(caller)).toHaveLength(1);
  });

  test('continues when the account is suspended during the charge', async () => {
    const caller = await api.addAccount();
    await addCard(caller, cards.good);
    processor.failNext(/^POST \/v1\/payment_intents\/\w+\/confirm$/, 'lost');
    const answer = choose(caller, 'pro');
    await until(async () => (await listInvoices(caller)).length > 0);
    const set = (status: string) =>
      api.orm.em.fork().execute('update accounts set status = ? where account_id = ?', [status, caller.accountId]);
    await set('suspended');
    expect((await answer).status).toBe(200);
    expect((await read(caller)).plan.plan_name).toBe('pro');
    expect(await listCharges(caller)).toHaveLength(1);
  });
});

test('a refund includes its tax, in the proportion of the invoice', async () => {
  const caller = await api.addAccount();
  await api.orm.em.fork().transactional((tx) => setTaxRate(tx, caller.accountId, '0.19'));
  await addCard(caller, cards.good);
  expect((await choose(caller, 'pro')).status).toBe(200);
  const [invoice] = await listInvoices(caller);
  expect(invoice.tax_amount).toBeGreaterThan(9);
  const refund = (body: object) =>
    api.send(api.root, 'POST', `/v1/payment/intents/${invoice.payment_reference}/refunds`, body);
  const sums = async () =>
    Object.fromEntries(
      (await ledgerSums(api.orm.em, caller.accountId)).map(({ ledgerAccount, sum }) => [ledgerAccount, Number(sum)]),
    );
  expect((await refund({ amount: 11.9 })).status).toBe(201);
  const part = await sums();
  expect([part.revenue, part.tax]).toEqual([
    expect.closeTo(10 - invoice.subtotal, 6),
    expect.closeTo(1.9 - invoice.tax_amount, 6),
  ]);
  expect((await refund({})).status).toBe(201);
  expect(await sums()).toEqual({ cash: 0, receivable: 0, revenue: 0, tax: 0 });
});

test('a cheaper plan is scheduled for the end of the period, and a choice of the present one cancels that', async () => {
  const caller = await api.addAccount('team');
  const planned = await choose(caller, 'hobby');
  expect(planned.body.data.subscription).toMatchObject({ plan: { plan_name: 'team' }, planned_plan_name: 'hobby' });
  const cancelled = await choose(caller, 'team');
  expect(cancelled.body.data.subscription).toMatchObject({ plan: { plan_name: 'team' }, planned_plan_name: null });
  // An upgrade replaces the scheduled change.
  await choose(caller, 'hobby');
  await grant(caller, 2000);
  const upgraded = await choose(caller, 'enterprise');
  expect(upgraded.body.data.subscription).toMatchObject({ plan: { plan_name: 'enterprise' }, planned_plan_name: null });
});

test('an unknown plan and a caller who is not root are refused', async () => {
  const caller = await api.addAccount();
  const unknown = await choose(caller, 'platinum');
  expect([unknown.status, unknown.body.code]).toEqual([400, 'unknown_plan']);
  const member = await api.addUser(caller);
  expect((await choose(member, 'pro')).body.code).toBe('root_required');
  expect((await read(member)).plan.plan_name).toBe('hobby');
});

describe('the running period', () => {
  /** Usage that costs 12,345.67 in its first millisecond. */
  const spendCores = (caller: Caller) =>
    api.orm.em.fork().execute(
      `insert into usage_events (resource_id, account_id, user_id, project_id, usage_type, period_start, period_end, amount, unit_price)
       select 'sbx-x', account_id, ?, ?, 'cpu_seconds', period_start, period_start + interval '1 millisecond', 1234567000, 0.01
         from subscriptions where account_id = ?`,
      [caller.userId, caller.projectId, caller.accountId],
    );

  test('is shown with its fee and usage, and its draft adds up', async () => {
    // All of it is on one day.
    await farFromMidnight();
    const caller = await api.addAccount('pro');
    await spendCores(caller);
    const draft = (await api.send(caller, 'POST', '/v1/billing/invoice/generate')).body.data;
    expect(draft).toMatchObject({ status: 'draft', subtotal: 12_394.67, tax_amount: 0, total_amount: 12_394.67 });
    expect(draft.line_items.map((line: Json) => [line.type, line.amount])).toEqual([
      ['subscription', 49],
      ['usage', 12_345.67],
    ]);
    const again = (await api.send(caller, 'POST', '/v1/billing/invoice/generate')).body.data;
    expect(again.invoice_id).toBe(draft.invoice_id);
    const current = (await api.send(caller, 'GET', '/v1/billing/current')).body.data;
    expect(current).toMatchObject({
      is_billed: true,
      current_cost: 12_394.67,
      subscription_fee: { plan_name: 'pro', standard: 49, credit: 0, final: 49 },
      cost_breakdown: [{ resource_type: 'cpu_seconds', cost: 12_345.67, percentage: 100 }],
    });
    expect(current.daily_trend).toHaveLength(1);
    const [live] = (await api.send(caller, 'GET', '/v1/billing/periods')).body.data.periods;
    expect(live).toMatchObject({ period_id: 'current', is_current: true, type: 'current_period', total: 12_394.67 });
    const history = (await api.send(caller, 'GET', '/v1/billing/history')).body.data;
    expect(history.total_cost).toBe(12_345.67);
    const swapped = await api.send(
      caller,
      'GET',
      '/v1/billing/history?start=2026-05-02T00:00:00Z&end=2026-05-01T00:00:00Z',
    );
    expect([swapped.status, swapped.body.code]).toEqual([400, 'invalid_date_range']);
  });

  test('of a free plan includes its usage', async () => {
    const caller = await api.addAccount('hobby');
    await spendCores(caller);
    const draft = (await api.send(caller, 'POST', '/v1/billing/invoice/generate')).body.data;
    expect(draft.line_items.map((line: Json) => line.amount)).toEqual([12_345.67, -12_345.67]);
    expect(draft.total_amount).toBe(0);
  });
});

test('each failed charge of an invoice is mailed, until it is paid', async () => {
  const caller = await api.addAccount('pro');
  const address = `billing-${caller.accountId}@example.com`;
  const sql = (text: string, values: unknown[] = []) => api.orm.em.fork().execute(text, values);
  await sql('update accounts set email = ? where account_id = ?', [address, caller.accountId]);
  await sql(
    `update subscriptions set anchor = p.starts, period_start = p.starts, period_end = p.starts + interval '1 month'
       from (select date_trunc('milliseconds', now() - interval '1 month 14 days') as starts) p where account_id = ?`,
    [caller.accountId],
  );
  await addCard(caller, cards.withoutFunds);
  await api.orm.em.fork().transactional(async (tx) => startBilling(tx, caller.accountId));
  const billing = plane.client.workflow.getHandle(`${caller.accountId}/billing`);
  const first = await mails.take(address);
  expect(first.subject).toBe('An invoice could not be charged');
  const [{ invoice_id: id }] = await listInvoices(caller);
  expect(first.text).toMatch(new RegExp(`49\\.00 USD of the invoice ${id} .* was declined \\(insufficient_funds\\)`));
  expect(first.text).toMatch(/The next attempt is on \d{4}-\d\d-\d\d \d\d:\d\d UTC\./);
  await plane.client.workflow.getHandle(`${id}/1/mail`).result();
  if (process.env.RECORD_HISTORIES === '1') await recordHistory(plane.client, 'invoice-mail', `${id}/1/mail`);

  // More than seven days later.
  const later = "interval '8 days'";
  await sql(
    `update invoices set first_attempt_at = first_attempt_at - ${later}, last_attempt_at = last_attempt_at - ${later}
      where invoice_id = ?`,
    [id],
  );
  await billing.signal(paymentPossibleSignal, { accountId: caller.accountId });
  const last = await mails.take(address);
  expect(last.subject).toBe('An invoice is past due');
  expect(last.text).toContain('neither created nor resumed');
  expect((await read(caller)).status).toBe('past_due');

  await addCard(caller, cards.good);
  await sql(`update invoices set last_attempt_at = last_attempt_at - ${later} where invoice_id = ?`, [id]);
  await billing.signal(paymentPossibleSignal, { accountId: caller.accountId });
  await until(async () => (await read(caller)).status === 'active');
  // The relay may still hold the entry of a delivered mail.
  await until(async () => (await sql('select 1 from outbox where workflow_id like ?', [`${id}/%`])).length === 0);
  expect(mails.mails.filter(({ receivers }) => receivers.includes(address))).toEqual([]);
});

test('an invoice of another account is 403, a missing one 404, and an invalid id 400', async () => {
  const [caller, other] = [await api.addAccount('pro'), await api.addAccount('pro')];
  const draft = (await api.send(caller, 'POST', '/v1/billing/invoice/generate')).body.data;
  const get = (by: Caller, id: string) => api.send(by, 'GET', `/v1/billing/invoices/${id}`);
  expect((await get(caller, draft.invoice_id)).body.data).toEqual(draft);
  const refused = await get(other, draft.invoice_id);
  expect([refused.status, refused.body.code]).toEqual([403, 'invoice_of_another_account']);
  expect((await get(caller, 'inv-none')).status).toBe(404);
  expect((await get(caller, 'none')).status).toBe(400);
  expect((await api.send(caller, 'GET', '/v1/payment/subscription-payment-by-period')).body.data).toBeNull();
});

test('an operator’s account changes its plan without a charge', async () => {
  const before = await processor.charges();
  const { body } = await choose(api.root, 'enterprise');
  expect(body.data).toMatchObject({ subscription: { plan: { plan_name: 'enterprise' } }, change_status: 'done' });
  expect(await listInvoices(api.root)).toEqual([]);
  expect(await processor.charges()).toEqual(before);
});

test('with billing off every change is effective at once, and nothing is charged', async () => {
  const free = await startApi({ env: { PLATFORM_BILLING: 'off' } });
  try {
    const caller = await free.addAccount();
    const change = (plan: string) => free.send(caller, 'POST', address, { plan_name: plan });
    for (const plan of ['enterprise', 'hobby']) {
      expect((await change(plan)).body.data).toMatchObject({
        subscription: { plan: { plan_name: plan }, planned_plan_name: null },
        change_status: 'done',
      });
    }
    expect((await free.send(caller, 'GET', '/v1/billing/invoices')).body.data.invoices).toEqual([]);
  } finally {
    await free.stop();
  }
});

test('no history of a charge or a period contains a key, a card, or an id that can move money at the processor', async () => {
  const caller = await api.addAccount();
  const setup = (await api.send(caller, 'POST', '/v1/payment/methods/setup-intent')).body.data;
  const { url } = (await api.send(caller, 'POST', '/v1/payment/methods/link')).body.data;
  await addCard(caller, cards.good);
  expect((await choose(caller, 'pro')).status).toBe(200);
  const [invoice] = await listInvoices(caller);
  const { client_secret: ofCharge } = await processor.get(`/v1/payment_intents/${invoice.payment_reference}`);
  const search = new SecretSearch({
    ...{ "the processor's key": processor.secretKey, 'the secret of notifications': processor.webhookSecret },
    ...{ 'the secret of a setup': setup.client_secret, 'the secret of a charge': ofCharge },
    'the token of a link': new URL(url).hash.slice(1),
    ...Object.fromEntries(Object.entries(cards).map(([name, number]) => [`the card ${name}`, number])),
  });
  const { workflowService, options } = plane.client;
  const listRuns = async () => {
    const { executions } = await workflowService.listWorkflowExecutions({
      ...{ namespace: options.namespace, pageSize: 1000 },
      query: 'WorkflowType in ("billing", "planChange")',
    });
    return executions.map(({ execution }) => execution!);
  };
  // Lists lag a little.
  await until(async () =>
    (await listRuns()).some(({ workflowId }) => workflowId === `${caller.accountId}/plan-change`),
  );
  const codec = new EncryptionCodec(deriveSecrets({ PLATFORM_SECRET_KEY: testSecretKey }));
  let decoded = '';
  for (const execution of await listRuns()) {
    const reply = await workflowService.getWorkflowExecutionHistory({ namespace: options.namespace, execution });
    expect(reply.nextPageToken).toHaveLength(0);
    const bytes = proto.temporal.api.history.v1.History.encode(reply.history!).finish();
    const payloads = await codec.decode(payloadsIn(reply.history));
    const text = payloads.map(({ data }) => Buffer.from(data ?? []).toString()).join('\n');
    const found = search.in(`${Buffer.from(bytes).toString('latin1')}\n${text}`);
    expect([execution.workflowId, found]).toEqual([execution.workflowId, []]);
    decoded += text;
  }
  // Charges of all earlier tests were read, including failed ones.
  for (const word of [caller.accountId, 'succeeded', 'failed']) expect(decoded).toContain(word);
  expect(search.in(JSON.stringify([setup, ofCharge, url]))).toHaveLength(3);
});
