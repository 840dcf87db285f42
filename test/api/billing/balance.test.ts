import { type Caller, startApi, type TestApi } from '../test-api.ts';

let api: TestApi;
let customer: Caller;
beforeAll(async () => {
  api = await startApi();
  customer = await api.addAccount();
});
afterAll(() => api.stop());

const credits = (body: unknown, more = {}) =>
  api.send(api.root, 'POST', `/v1/accounts/${customer.accountId}/credits`, body, more);
const balance = async (of = customer) => (await api.send(of, 'GET', '/v1/billing/balance')).body.data.balance;

test('an operator grants credit and takes it back, and the customer sees both', async () => {
  expect(await balance()).toBe(0);
  const granted = await credits({ action: 'grant', amount: 25.1, description: 'For a start' });
  expect([granted.status, granted.body.data]).toMatchObject([
    201,
    {
      account_id: customer.accountId,
      kind: 'credit_granted',
      amount: 25.1,
      currency: 'USD',
      description: 'For a start',
    },
  ]);
  const refunded = await credits({ action: 'refund', amount: 0.2 });
  expect(refunded.body.data).toMatchObject({ kind: 'credit_refunded', amount: -0.2 });
  expect(await balance()).toBe(24.9);
  const { changes } = (await api.send(customer, 'GET', '/v1/billing/balance/changes')).body.data;
  expect(changes.map((each: { amount: number }) => each.amount)).toEqual([-0.2, 25.1]);
  const asked = `/v1/billing/balance/changes?account_id=${customer.accountId}`;
  expect((await api.send(api.root, 'GET', asked)).body.data.changes).toEqual(changes);
  expect(await balance(api.root)).toBe(0);
});

test('more than the balance cannot be taken back', async () => {
  const reply = await credits({ action: 'refund', amount: 1000 });
  expect([reply.status, reply.body.code]).toEqual([400, 'balance_too_low']);
});

test('a grant that is repeated with its Idempotency-Key is booked once', async () => {
  const before = await balance();
  const once = { headers: { 'idempotency-key': 'credit-once' } };
  const replies = [
    await credits({ action: 'grant', amount: 5 }, once),
    await credits({ action: 'grant', amount: 5 }, once),
  ];
  expect(replies[1]!.body.data.transaction_id).toBe(replies[0]!.body.data.transaction_id);
  expect(await balance()).toBeCloseTo(before + 5, 10);
});

test.each([...[0, -1, 0.001, 10.005, 1_000_000_001, 1e300, '5', null, true, [5], { amount: 5 }]])(
  'an amount of %p is refused and changes nothing',
  async (amount) => {
    const before = await balance();
    const reply = await credits({ action: 'grant', amount });
    expect([reply.status, reply.body.code, reply.body.details[0].path]).toEqual([400, 'validation_failed', 'amount']);
    expect(await balance()).toBe(before);
  },
);

test.each(['{"action":"grant","amount":NaN}', '{"action":"grant","amount":1e999}'])(
  'the body %s is refused',
  async (rawBody) => {
    const reply = await credits(undefined, { rawBody, contentType: 'application/json' });
    expect(reply.status).toBe(400);
  },
);

test('only operators change credit, and only of accounts that exist', async () => {
  const own = await api.send(customer, 'POST', `/v1/accounts/${customer.accountId}/credits`, {
    action: 'grant',
    amount: 1,
  });
  expect([own.status, own.body.code]).toEqual([403, 'admin_required']);
  for (const accountId of ['acc-none', 'nonsense', customer.userId]) {
    const unknown = await api.send(api.root, 'POST', `/v1/accounts/${accountId}/credits`, {
      action: 'grant',
      amount: 1,
    });
    expect([unknown.status, unknown.body.code]).toEqual([404, 'not_found']);
  }
});

test('the audit log has each change with the balance before and after it', async () => {
  const account = await api.addAccount();
  await api.send(api.root, 'POST', `/v1/accounts/${account.accountId}/credits`, { action: 'grant', amount: 3 });
  const { events } = (await api.send(account, 'GET', '/v1/audit-events?action=changeCredits')).body.data;
  expect(events).toEqual([
    expect.objectContaining({
      actor_user_id: api.root.userId,
      before: { balance: '0.00 USD' },
      after: { balance: '3.00 USD' },
    }),
  ]);
});
