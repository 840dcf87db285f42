import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { toSpec } from '../../../activities/sandboxes/spec.ts';
import { createAccount } from '../../../db/accounts/accounts.ts';
import { issuePeriodInvoice, renew } from '../../../db/billing/billing-periods.ts';
import { findInvoice, findPeriodInvoiceEndingAt } from '../../../db/billing/invoices.ts';
import { loadPlans } from '../../../db/billing/plans.ts';
import { currentPeriod, findSubscription } from '../../../db/billing/subscriptions.ts';
import { Sandbox } from '../../../db/sandboxes/sandbox.entity.ts';
import { planHeldBy } from '../../../domain/billing/plans.ts';
import type { SandboxId } from '../../../domain/ids.ts';
import { deriveSecrets } from '../../../platform/config/secrets.ts';
import { startApi, type TestApi } from '../../api/test-api.ts';
import { testSecretKey } from '../../support/control-plane.ts';

let api: TestApi;
beforeAll(async () => {
  api = await startApi({ planName: 'pro' });
});
afterAll(() => api.stop());

const sql = (text: string) => api.orm.em.fork().execute(text);
const create = (body: object = {}) => api.send(api.root, 'POST', '/v1/sandboxes', { template: 'base', ...body });
/** A plans file in which `pro` has another price and lower limits. */
const changedPlans = () => {
  const { all, currency } = loadPlans();
  const pro = { ...all[1]!, priceAmount: '99.00', maxCpuCoresPerSandbox: 1, maxConcurrentSandboxes: 1 };
  const plans = [all[0]!, pro, ...all.slice(2)];
  return { all: plans, currency, get: (name: string) => plans.find(({ planName }) => planName === name)! };
};

test('a new account has a subscription with the terms of its plan and a first period of a month', async () => {
  const subscription = (await findSubscription(api.orm.em, api.root.accountId))!;
  expect(subscription).toMatchObject({
    subscriptionId: expect.stringMatching(/^sub-/),
    status: 'active',
    plan: api.plans.get('pro'),
    openingPlan: api.plans.get('pro'),
    plannedPlanName: null,
    taxRate: '0',
  });
  const days = (subscription.periodEnd.getTime() - subscription.periodStart.getTime()) / 86_400_000;
  expect(days).toBeGreaterThanOrEqual(28);
  expect(days).toBeLessThanOrEqual(31);
  const [event] = await sql(`select type, data from events where object_id = '${subscription.subscriptionId}'`);
  expect(event).toMatchObject({
    type: 'subscription.created',
    data: { account_id: api.root.accountId, plan_name: 'pro', status: 'active', sequence: 1 },
  });
});

test('a subscription that was not renewed in time has the period that contains the present', async () => {
  const subscription = (await findSubscription(api.orm.em, api.root.accountId))!;
  const { periodStart, periodEnd } = subscription;
  expect(currentPeriod(subscription, periodStart)).toEqual({ start: periodStart, end: periodEnd });
  expect(currentPeriod(subscription, periodEnd).start).toEqual(periodEnd);
});

test('a changed plans file changes neither limits nor price of what was bought', async () => {
  const subscription = (await findSubscription(api.orm.em, api.root.accountId))!;
  const plan = planHeldBy({ planName: 'pro', boughtPlan: subscription.plan }, changedPlans());
  expect([plan.priceAmount, plan.maxCpuCoresPerSandbox]).toEqual(['49.00', 8]);
  // The same through HTTP: the stored terms apply, not the file.
  await sql(`update subscriptions set plan = jsonb_set(plan, '{maxCpuCoresPerSandbox}', '1')
              where account_id = '${api.root.accountId}'`);
  const refused = await create({ cpu_count: 2 });
  expect([refused.status, refused.body.code]).toEqual([400, 'plan_limit_exceeded']);
  expect((await create({ cpu_count: 1 })).status).toBe(201);
  const timeout = { ...subscription.plan, maxCpuCoresPerSandbox: 8 };
  await sql(`update subscriptions set plan = '${JSON.stringify(timeout)}' where account_id = '${api.root.accountId}'`);
  expect((await create({ cpu_count: 2 })).status).toBe(201);
});

test("a sandbox keeps the disk rates of its account's plan, and has no limit if the plan was bought without rates", async () => {
  const readSpec = async (sandboxId: string) => {
    const row = await api.orm.em.fork().findOneOrFail(Sandbox, { sandboxId: sandboxId as SandboxId });
    return toSpec(row, { secrets: deriveSecrets({ PLATFORM_SECRET_KEY: testSecretKey }) });
  };
  const createSandbox = async () => (await create()).body.data.sandbox_id as string;
  const limited = await createSandbox();
  const rates = { readMbPerSecond: 250, writeMbPerSecond: 250, readsPerSecond: 6000, writesPerSecond: 6000 };
  expect((await readSpec(limited)).diskRates).toEqual(rates);
  await sql(
    `update subscriptions set plan = plan - 'maxDiskRatesPerSandbox' where account_id = '${api.root.accountId}'`,
  );
  expect(await readSpec(await createSandbox())).not.toHaveProperty('diskRates');
  expect((await readSpec(limited)).diskRates).toEqual(rates);
  const plan = JSON.stringify(api.plans.get('pro'));
  await sql(`update subscriptions set plan = '${plan}' where account_id = '${api.root.accountId}'`);
});

test('a subscription that is past due creates nothing', async () => {
  const set = (status: string) =>
    sql(`update subscriptions set status = '${status}' where account_id = '${api.root.accountId}'`);
  await set('past_due');
  const refused = await create();
  expect([refused.status, refused.body.code]).toEqual([402, 'subscription_past_due']);
  await set('active');
  expect((await create()).status).toBe(201);
});

test('an account is made with the terms of the plans that are given', async () => {
  const wanted = { email: 'given@example.com', displayName: 'G', planName: 'pro', role: 'user' } as const;
  const { accountId } = await api.orm.em.fork().transactional((em) => createAccount(em, wanted, changedPlans()));
  expect((await findSubscription(api.orm.em, accountId))!.plan.priceAmount).toBe('99.00');
});

test('issued invoices, their lines and changes of subscriptions are kept as they are', async () => {
  const { accountId } = api.root;
  const invoice = `insert into invoices (invoice_id, account_id, kind, period_start, period_end, plan, currency, tax_rate)
    values ('inv-a', '${accountId}', 'period', '2026-01-01', '2026-02-01', '{}', 'USD', 0)`;
  await sql(invoice);
  await sql(`insert into invoice_lines values ('inv-a', 0, 'subscription', 'Pro', 1, 49, 49)`);
  await expect(sql(`update invoices set status = 'paid', issued_at = now(), paid_at = now()`)).rejects.toThrow(
    /a draft is issued first/,
  );
  await sql(`update invoices set status = 'open', issued_at = now(), subtotal = 49, total_amount = 49`);
  for (const refused of [
    'update invoices set subtotal = 48, total_amount = 48',
    "update invoices set billed_usage = '[]'",
    "update invoices set status = 'draft'",
    'delete from invoices',
    'update invoice_lines set amount = 1',
    'delete from invoice_lines',
    `insert into invoice_lines values ('inv-a', 1, 'usage', 'x', 1, 1, 1)`,
  ]) {
    await expect(sql(refused)).rejects.toThrow(/kept|does not move/);
  }
  await sql(`update invoices set status = 'paid', paid_at = now()`);
  await expect(sql("update invoices set status = 'void'")).rejects.toThrow(/does not move/);
});

test('usage that is recorded after the invoice of its period is on the next one, once, and the sum of all is what was used', async () => {
  const wanted = { email: 'late@example.com', displayName: 'L', planName: 'pro', role: 'user' } as const;
  const { accountId } = await api.orm.em.fork().transactional((em) => createAccount(em, wanted));
  const ends = [1, 2, 3, 4].map((month) => new Date(Date.UTC(2026, month, 10, 9, 30)));
  const start = new Date(Date.UTC(2026, 0, 10, 9, 30));
  await api.orm.em
    .fork()
    .execute('update subscriptions set anchor = ?, period_start = ?, period_end = ? where account_id = ?', [
      ...[start, start, ends[0], accountId],
    ]);
  const use = (from: string, minutes: number, gigabytes: number, price = '1') =>
    api.orm.em.fork().execute(
      `insert into usage_events (resource_id, account_id, user_id, project_id, usage_type, period_start, period_end, amount, unit_price)
       values ('sbx-' || gen_random_uuid(), ?, '', '', 'traffic_gb', ?::timestamptz, ?::timestamptz + ?::int * interval '1 minute', ?::bigint, ?::numeric)`,
      [accountId, from, from, minutes, gigabytes * 1024 ** 3, price],
    );
  /** Ends the current period and issues its invoice. */
  const close = async (end: Date) => {
    await renew(api.orm.em, api.plans, { accountId, at: end, billed: true });
    const { invoiceId } = (await findPeriodInvoiceEndingAt(api.orm.em, accountId, end))!;
    await issuePeriodInvoice(api.orm.em, invoiceId, new Date(end.getTime() + 3_600_000));
    const { lines } = (await findInvoice(api.orm.em, invoiceId))!;
    return lines.filter(({ type }) => type === 'usage').map((line) => [line.description, Number(line.amount)]);
  };
  const late = (since: string) => `Traffic (GB), used in the period from ${since}`;
  await use('2026-01-20T10:00:00Z', 30, 5);
  expect(await close(ends[0]!)).toEqual([['Traffic (GB)', 5]]);
  // In the first period, which contains half of the last event; and in the second, with another price.
  await use('2026-02-01T10:00:00Z', 30, 7);
  await use('2026-02-10T09:00:00Z', 60, 2);
  await use('2026-02-11T10:00:00Z', 30, 11, '2');
  expect(await close(ends[1]!)).toEqual([
    ['Traffic (GB)', 1],
    ['Traffic (GB)', 22],
    [late('2026-01-10'), 8],
  ]);
  await use('2026-01-15T10:00:00Z', 30, 3);
  expect(await close(ends[2]!)).toEqual([[late('2026-01-10'), 3]]);
  expect(await close(ends[3]!)).toEqual([]);
  const [sums] = await sql(
    `select (select sum(amount * unit_price) / 1073741824 from usage_events where account_id = '${accountId}')::float8 as used,
            (select sum(l.amount) from invoice_lines l join invoices using (invoice_id)
              where account_id = '${accountId}' and type = 'usage')::float8 as billed`,
  );
  expect(sums).toEqual({ used: 39, billed: 39 });
});
