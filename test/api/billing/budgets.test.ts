import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { checkBudget } from '../../../db/billing/budget-checks.ts';
import { addUsage, ageAccount } from '../../support/added-usage.ts';
import type { Json } from '../contract-client.ts';
import { type Caller, startApi, type TestApi } from '../test-api.ts';

let api: TestApi;
let root: Caller;

beforeAll(async () => {
  api = await startApi({ env: { PLATFORM_BILLING: 'on', PLATFORM_RATE_LIMIT_PER_ADDRESS: '0' } });
});
beforeEach(async () => {
  root = await api.addAccount('pro');
  await ageAccount(api.orm.em, root.accountId, '5 days');
});
afterAll(() => api.stop());

const budgets = '/v1/budgets';
const set = (body: unknown, more = {}, by = root) => api.send(by, 'POST', budgets, body, more);
const change = (body: unknown, by = root) => api.send(by, 'PUT', budgets, body);
const use = (cost: string) => addUsage(api.orm.em, root.accountId, cost);
const status = async (): Promise<Json> => (await api.send(root, 'GET', `${budgets}/status`)).body.data;
const messages = async (): Promise<Json[]> => (await api.send(root, 'GET', `${budgets}/messages`)).body.data.messages;
const notifications = async (): Promise<Json[]> => {
  const { body } = await api.send(root, 'GET', '/v1/notifications');
  return body.data.notifications.filter((each: Json) => each.category === 'budget');
};
const create = () => api.send(root, 'POST', '/v1/sandboxes', {});
const check = (isBilled = true, now = new Date()) =>
  checkBudget(api.orm.em, { currency: 'USD', isBilled, pausesSandboxes: false }, root.accountId, now);
const events = async (): Promise<Json[]> => {
  const rows = (await api.orm.em
    .fork()
    .execute(
      "select type, data from events where account_id = ? and type like 'budget.%' order by data ->> 'sequence'",
      [root.accountId],
    )) as unknown as Json[];
  return rows;
};
const formatCode = ({ status: http, body }: { status: number; body: Json }) => `${http} ${body.code}`;

test('an account without a budget has null, no messages, and nothing to change or delete', async () => {
  expect((await api.send(root, 'GET', budgets)).body.data).toBeNull();
  expect(await status()).toBeNull();
  const { data } = (await api.send(root, 'GET', `${budgets}/messages`)).body;
  expect(data).toEqual({
    messages: [],
    pagination: { page: 1, limit: 20, total: 0, total_pages: 0, offset: 0, next_cursor: null },
  });
  expect(formatCode(await change({ budget_amount: 5 }))).toBe('404 not_found');
  expect(formatCode(await api.send(root, 'DELETE', budgets))).toBe('404 not_found');
});

test('a budget has the defaults, is read as it was made, and is the only one of its account', async () => {
  const made = await set({ budget_amount: 12.5 });
  expect([made.status, made.body.data]).toEqual([
    201,
    {
      id: expect.any(Number),
      account_id: root.accountId,
      budget_amount: 12.5,
      currency: 'USD',
      alert_thresholds: [50, 80, 100].map((percent) => ({ percent, enabled: true })),
      limit_type: 'soft',
      notification_emails: [],
      is_active: true,
      is_restricted: false,
      created_at: expect.any(String),
      updated_at: expect.any(String),
    },
  ]);
  expect((await api.send(root, 'GET', budgets)).body.data).toEqual(made.body.data);
  expect(formatCode(await set({ budget_amount: 1 }))).toBe('409 budget_exists');
  const other = await api.addAccount();
  expect((await api.send(other, 'GET', budgets)).body.data).toBeNull();
  expect((await set({ budget_amount: 1 }, {}, other)).status).toBe(201);
});

test('concurrent creates make one budget, and a repeated Idempotency-Key gets the first reply', async () => {
  const replies = await Promise.all(Array.from({ length: 5 }, () => set({ budget_amount: 3 })));
  expect(replies.map(formatCode).sort()).toEqual(['201 undefined', ...Array(4).fill('409 budget_exists')]);
  const other = await api.addAccount();
  const once = { headers: { 'idempotency-key': 'budget-once' } };
  const first = await set({ budget_amount: 4 }, once, other);
  const second = await set({ budget_amount: 4 }, once, other);
  expect([first.status, second.status, second.body.data.id]).toEqual([201, 201, first.body.data.id]);
});

test.each([
  ['budget_amount', [undefined, null, 0, -1, 0.001, 10.005, 1_000_000_001, 1e300, '5', true, [5], {}, 'NaN']],
  ['limit_type', ['firm', 1, true]],
  [
    'alert_thresholds',
    [
      'all',
      [{ percent: 0 }],
      [{ percent: 101 }],
      [{ percent: -5 }],
      [{ percent: 50.5 }],
      [{ percent: '50' }],
      [{}],
      [{ percent: 50 }, { percent: 50, enabled: false }],
      [{ percent: 50, enabled: 'yes' }],
      Array.from({ length: 21 }, (_, index) => ({ percent: index + 1 })),
    ],
  ],
  [
    'notification_emails',
    ['a@b.c', ['nobody'], ['a@b@c.de'], [5], Array(11).fill('a@example.com'), [`${'a'.repeat(255)}@b.de`]],
  ],
])('a bad %s is refused, and nothing is made', async (field, values) => {
  for (const value of values as unknown[]) {
    const reply = await set({ budget_amount: 5, [field]: value });
    expect([value, formatCode(reply)]).toEqual([value, '400 validation_failed']);
    expect(reply.body.details[0].path.split('.')[0]).toBe(field);
  }
  expect((await api.send(root, 'GET', budgets)).body.data).toBeNull();
  await set({ budget_amount: 5 });
  for (const value of values as unknown[]) {
    // Not set, in the form that typed clients send.
    if (value === undefined || value === null || value === 0) continue;
    expect([value, formatCode(await change({ [field]: value }))]).toEqual([value, '400 validation_failed']);
  }
  expect(await status()).toMatchObject({ budget_amount: 5, limit_type: 'soft' });
});

test('fields without a value stay unchanged, and unset values of typed clients have no effect', async () => {
  const thresholds = [
    { percent: 90, enabled: true },
    { percent: 10, enabled: false },
  ];
  const made = await set({ budget_amount: 5, limit_type: '', alert_thresholds: [], notification_emails: null });
  expect(made.body.data.limit_type).toBe('soft');
  expect(made.body.data.alert_thresholds).toHaveLength(3);
  const emails = ['Ada@Example.com', 'ada@example.com', 'grace@example.com'];
  const changed = await change({ alert_thresholds: thresholds, limit_type: 'hard', notification_emails: emails });
  expect(changed.body.data).toMatchObject({
    ...{ budget_amount: 5, limit_type: 'hard', alert_thresholds: thresholds },
    notification_emails: [expect.stringMatching(/^ada@/i), 'grace@example.com'],
  });
  for (const nothing of [undefined, {}, { budget_amount: 0, alert_thresholds: [], limit_type: '', is_active: null }]) {
    const { body } = await change(nothing);
    expect({ ...body.data, updated_at: null }).toEqual({ ...changed.body.data, updated_at: null });
  }
  expect((await change({ notification_emails: [] })).body.data.notification_emails).toEqual([]);
});

test('only root users have access to budgets', async () => {
  const user = await api.addUser(root);
  for (const [method, path] of [
    ...['GET', 'POST', 'PUT', 'DELETE'].map((each) => [each, budgets] as const),
    ...[['GET', `${budgets}/status`] as const, ['GET', `${budgets}/messages`] as const],
  ]) {
    expect(formatCode(await api.send(user, method, path))).toBe('403 root_required');
  }
});

test('the status has the exact use of the present period', async () => {
  await addUsage(api.orm.em, root.accountId, '500', new Date(Date.now() - 6 * 86_400_000));
  await use('0.1');
  await use('0.2');
  await set({ budget_amount: 30 });
  const now = await status();
  expect(now).toEqual({
    budget_id: expect.any(Number),
    account_id: root.accountId,
    ...{ budget_amount: 30, amount_used: 0.3, percentage_used: 1, remaining_budget: 29.7, currency: 'USD' },
    ...{ limit_type: 'soft', is_restricted: false, is_active: true },
    period_start: expect.any(String),
    period_end: expect.any(String),
    alert_thresholds: [50, 80, 100].map((percent) => ({ percent, enabled: true })),
    ...{ check_interval_minutes: 5, cooldown_hours: 24 },
  });
  const [start, end] = [Date.parse(now.period_start), Date.parse(now.period_end)];
  expect(start).toBeLessThan(Date.now());
  expect((end - start) / 86_400_000).toBeGreaterThanOrEqual(28);
  await use('59.7');
  expect(await status()).toMatchObject({ amount_used: 60, percentage_used: 200, remaining_budget: 0 });
});

describe('a check', () => {
  test('reports each threshold once, with message, notification and event', async () => {
    await set({ budget_amount: 100, notification_emails: ['finance@example.com'] });
    await use('49.999999');
    await check();
    expect(await messages()).toEqual([]);
    await use('30.000001');
    await check();
    await check();
    const [eighty, fifty] = await messages();
    expect(fifty).toMatchObject({ threshold_percent: 50, threshold_type: 'warning' });
    const received = await notifications();
    expect(received.map(({ title }) => title).sort()).toEqual([
      '50 % of your budget is used',
      '80 % of your budget is used',
    ]);
    const account = (await api.send(root, 'GET', '/v1/users/me')).body.data.account.email;
    expect(eighty).toEqual({
      id: expect.stringMatching(/^bgm-/),
      account_id: root.accountId,
      ...{ threshold_percent: 80, threshold_type: 'warning', usage_amount: 80, budget_amount: 100, currency: 'USD' },
      percentage_used: 80,
      notification_id: received.find(({ title }) => title.startsWith('80'))!.id,
      email_sent: false,
      email_recipients: `${account}, finance@example.com`,
      email_subject: '80 % of your budget is used',
      period_start: (await status()).period_start,
      period_end: (await status()).period_end,
      created_at: expect.any(String),
    });
    expect(await events()).toEqual([
      expect.objectContaining({
        type: 'budget.threshold_crossed',
        data: expect.objectContaining({
          ...{ account_id: root.accountId, threshold_percent: 50, amount_used: 80, percentage_used: 80, sequence: 1 },
        }),
      }),
      expect.objectContaining({ data: expect.objectContaining({ threshold_percent: 80, sequence: 2 }) }),
    ]);
    const starts = (await api.orm.em
      .fork()
      .execute("select workflow_id from outbox where workflow_type = 'budgetMail'")) as unknown as Json[];
    expect(starts.map(({ workflow_id: id }) => id)).toEqual(expect.arrayContaining([eighty!.id, fifty!.id]));
    await use('20');
    await check();
    expect((await messages())[0]).toMatchObject({ threshold_percent: 100, threshold_type: 'exceeded' });
    expect((await status()).is_restricted).toBe(false);
  });

  test('concurrent checks report once', async () => {
    await set({ budget_amount: 10 });
    await use('5');
    await Promise.all(Array.from({ length: 6 }, () => check()));
    expect(await messages()).toHaveLength(1);
    expect(await events()).toHaveLength(1);
  });

  test('a budget that is deleted and made again reports nothing twice in a day', async () => {
    await use('6');
    await set({ budget_amount: 10 });
    expect(await messages()).toHaveLength(1);
    for (let round = 0; round < 3; round += 1) {
      await api.send(root, 'DELETE', budgets);
      await set({ budget_amount: 10 });
    }
    expect(await messages()).toHaveLength(1);
    await check(true, new Date(Date.now() + 24 * 3_600_000));
    expect(await messages()).toHaveLength(2);
  });

  test('only the first twenty messages of a day are mailed', async () => {
    await use('100');
    await set({ budget_amount: 100, alert_thresholds: Array.from({ length: 20 }, (_, i) => ({ percent: i + 1 })) });
    await change({ alert_thresholds: Array.from({ length: 5 }, (_, i) => ({ percent: i + 50 })) });
    const { body } = await api.send(root, 'GET', `${budgets}/messages?limit=100`);
    const mailed = body.data.messages.filter((each: Json) => each.email_recipients !== '');
    expect([body.data.messages.length, mailed.length]).toEqual([25, 20]);
  });
});

describe('a hard limit', () => {
  test('that is used up refuses creates, resumes and templates, and an edit lifts it', async () => {
    const paused = (await create()).body.data.sandbox_id;
    const second = (await create()).body.data.sandbox_id;
    for (const id of [paused, second]) {
      await api.send(root, 'POST', `/v1/sandboxes/${id}/pause`);
    }
    const running = (await create()).body.data.sandbox_id;
    await set({ budget_amount: 10, limit_type: 'hard' });
    await use('9.99');
    await check();
    expect((await create()).status).toBe(201);
    await use('0.01');
    await check();
    expect(await status()).toMatchObject({ is_restricted: true, percentage_used: 100, remaining_budget: 0 });

    const refusals = [
      await create(),
      await api.send(root, 'POST', `/v1/sandboxes/${paused}/resume`),
      await api.send(root, 'POST', '/v1/templates', { name: 'web-server' }),
    ];
    expect(refusals.map(formatCode)).toEqual(Array(3).fill('403 budget_restricted'));
    const batch = await api.send(root, 'POST', '/v1/sandboxes/batch-resume', { sandbox_ids: [paused, second] });
    expect([batch.status, batch.body.data.results.map(({ code }: Json) => code)]).toEqual([
      202,
      ['budget_restricted', 'budget_restricted'],
    ]);
    // Running sandboxes continue.
    expect((await api.send(root, 'GET', `/v1/sandboxes/${running}`)).body.data.status).not.toBe('failed');

    expect((await change({ budget_amount: 20 })).body.data.is_restricted).toBe(false);
    expect((await create()).status).toBe(201);
    expect((await api.send(root, 'POST', `/v1/sandboxes/${paused}/resume`)).status).toBe(200);
    expect((await api.send(root, 'POST', '/v1/templates', { name: 'web-server' })).status).toBe(201);
    expect((await events()).map(({ type, data }) => data.because ?? type)).toEqual(
      expect.arrayContaining(['budget.threshold_crossed', 'budget.restricted', 'budget_changed']),
    );
  });

  test.each<[string, () => Promise<unknown>, string]>([
    ['a soft limit', () => change({ limit_type: 'soft' }), 'budget_changed'],
    ['deactivation', () => change({ is_active: false }), 'deactivated'],
    ['deletion', () => api.send(root, 'DELETE', budgets), 'deleted'],
    ['billing that is switched off', () => check(false), 'not_billed'],
    ['a new period', () => check(true, new Date(Date.now() + 31 * 86_400_000)), 'new_period'],
  ])('is lifted by %s', async (_what, lift, because) => {
    await use('5');
    expect((await set({ budget_amount: 5, limit_type: 'hard' })).body.data.is_restricted).toBe(true);
    expect(formatCode(await create())).toBe('403 budget_restricted');
    await lift();
    expect((await create()).status).toBe(201);
    expect((await events()).at(-1)).toMatchObject({ type: 'budget.restored', data: { because } });
    expect((await notifications()).map(({ type }) => type)).toEqual(
      expect.arrayContaining(['budget_threshold', 'budget_restricted', 'budget_restored']),
    );
  });

  test('restricts again when it is made active or hard again', async () => {
    await use('5');
    await set({ budget_amount: 5, limit_type: 'hard' });
    await change({ is_active: false });
    expect((await change({ is_active: true })).body.data).toMatchObject({ is_active: true, is_restricted: true });
    await change({ limit_type: 'soft' });
    expect((await change({ limit_type: 'hard' })).body.data.is_restricted).toBe(true);
    // The thresholds were reported before, so there are no new messages.
    expect(await messages()).toHaveLength(3);
  });

  test('of another account restricts no other account', async () => {
    await use('5');
    await set({ budget_amount: 5, limit_type: 'hard' });
    const other = await api.addAccount('pro');
    expect((await api.send(other, 'POST', '/v1/sandboxes', {})).status).toBe(201);
  });
});

test('a platform without billing sends alerts and refuses nothing', async () => {
  await set({ budget_amount: 5, limit_type: 'hard' });
  await use('6');
  await check(false);
  expect(await status()).toMatchObject({ is_restricted: false, percentage_used: 120 });
  expect(await messages()).toHaveLength(3);
  expect((await create()).status).toBe(201);
});

test('each creation requests a check, except with an inactive budget', async () => {
  const asked = async () => {
    const [row] = (await api.orm.em
      .fork()
      .execute("select count(*)::int as n from outbox where signal = 'checkBudget' and workflow_id = ?", [
        `${root.accountId}/budget`,
      ])) as unknown as { n: number }[];
    return row!.n;
  };
  await set({ budget_amount: 5 });
  const before = await asked();
  await create();
  await create();
  expect(await asked()).toBe(before + 2);
  await change({ is_active: false });
  const inactive = await asked();
  await create();
  expect(await asked()).toBe(inactive);
});

test('changes are in the audit log', async () => {
  await set({ budget_amount: 5 });
  await change({ budget_amount: 7, notification_emails: ['finance@example.com'] });
  await api.send(root, 'DELETE', budgets);
  const { body } = await api.send(root, 'GET', '/v1/audit-events');
  const changes = body.data.events.filter(({ action }: Json) => action.endsWith('Budget'));
  expect(changes.map(({ action }: Json) => action)).toEqual(['deleteBudget', 'updateBudget', 'createBudget']);
  expect(changes[1]).toMatchObject({
    before: { budget_amount: '5.00 USD', notification_emails: '' },
    after: { budget_amount: '7.00 USD', notification_emails: 'finance@example.com' },
  });
});
