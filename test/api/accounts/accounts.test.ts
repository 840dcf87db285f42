import { User } from '../../../db/accounts/user.entity.ts';
import type { Json } from '../contract-client.ts';
import { type Caller, startApi, type TestApi } from '../test-api.ts';

const accounts = '/v1/admin/accounts';
let api: TestApi;
beforeAll(async () => {
  api = await startApi({ planName: 'enterprise' });
});
afterAll(() => api.stop());

const list = async (query = ''): Promise<Json[]> => {
  const { status, body } = await api.send(api.root, 'GET', `${accounts}${query}`);
  expect([query, status]).toEqual([query, 200]);
  return body.data.accounts;
};
const setStatus = (account: Caller, status: unknown, by: Caller | null = api.root) =>
  api.send(by, 'PUT', `${accounts}/${account.accountId}/status`, { status });
const emailOf = async ({ userId }: Caller) => (await api.orm.em.fork().findOneOrFail(User, { userId })).email;

test('operators see all accounts, newest first, with plan, users and active sandboxes', async () => {
  const owner = await api.addAccount('pro');
  await api.addUser(owner);
  const made = [];
  for (let at = 0; at < 3; at += 1) {
    made.push((await api.send(owner, 'POST', '/v1/sandboxes', {})).body.data.sandbox_id as string);
  }
  await api.send(owner, 'POST', `/v1/sandboxes/${made[0]}/pause`);
  await api.send(owner, 'POST', `/v1/sandboxes/${made[1]}/terminate`);
  const [newest, ...others] = await list();
  expect(newest).toEqual({
    ...{ account_id: owner.accountId, email: await emailOf(owner), display_name: 'Owner', status: 'active' },
    ...{ plan_name: 'pro', user_count: 2, active_sandbox_count: 1, created_at: expect.any(String) },
  });
  expect(others.at(-1)).toMatchObject({ account_id: api.root.accountId, plan_name: 'enterprise' });
});

test('the list is searched by part of the e-mail or name, and filtered by status', async () => {
  const [one, other] = [await api.addAccount(), await api.addAccount()];
  await api.send(other, 'PUT', '/v1/user-management/account', { display_name: 'Analytical 100% Engines' });
  const ids = async (query: string) => (await list(query)).map((each) => each.account_id);
  expect(await ids(`?search=${(await emailOf(one)).toUpperCase()}`)).toEqual([one.accountId]);
  expect(await ids('?search=ical%20100%25')).toEqual([other.accountId]);
  expect(await ids('?search=%25%25')).toEqual([]);
  await setStatus(one, 'suspended');
  expect(await ids('?status=suspended')).toEqual([one.accountId]);
  expect(await ids('?status=active')).not.toContain(one.accountId);
  const refused = await api.send(api.root, 'GET', `${accounts}?status=closed`);
  expect([refused.status, refused.body.code]).toEqual([400, 'validation_failed']);
});

test('a suspended account may only read, until it is reopened; both are in its audit log', async () => {
  const owner = await api.addAccount();
  const suspended = await setStatus(owner, 'suspended');
  expect([suspended.status, suspended.body.data]).toEqual([
    200,
    expect.objectContaining({ account_id: owner.accountId, status: 'suspended' }),
  ]);
  expect((await api.send(owner, 'POST', '/v1/projects', { name: 'a' })).body.code).toBe('account_suspended');
  expect((await api.send(owner, 'GET', '/v1/projects')).status).toBe(200);
  expect((await setStatus(owner, 'active')).body.data.status).toBe('active');
  expect((await api.send(owner, 'POST', '/v1/projects', { name: 'a' })).status).toBe(201);
  const { body } = await api.send(owner, 'GET', '/v1/audit-events?action=setAccountStatus');
  expect(body.data.events).toMatchObject([
    {
      actor_user_id: api.root.userId,
      object_id: owner.accountId,
      before: { status: 'suspended' },
      after: { status: 'active' },
    },
    {
      actor_user_id: api.root.userId,
      object_id: owner.accountId,
      before: { status: 'active' },
      after: { status: 'suspended' },
    },
  ]);
});

test('the account of the last admin stays open', async () => {
  const refused = await setStatus(api.root, 'suspended');
  expect([refused.status, refused.body.code]).toEqual([400, 'last_admin']);
  expect((await api.send(api.root, 'POST', '/v1/projects', { name: 'still open' })).status).toBe(201);
});

test('only operators may do this, with a known account and a known status', async () => {
  const owner = await api.addAccount();
  const code = ({ status, body }: { status: number; body: Json }) => [status, body.code];
  expect(code(await setStatus(owner, 'suspended', owner))).toEqual([403, 'admin_required']);
  expect(code(await setStatus(owner, 'suspended', null))).toEqual([401, 'unauthenticated']);
  expect(code(await api.send(owner, 'GET', accounts))).toEqual([403, 'admin_required']);
  expect(code(await setStatus({ ...owner, accountId: 'acc-none' }, 'suspended'))).toEqual([404, 'not_found']);
  for (const status of ['closed', undefined, null]) {
    expect(code(await setStatus(owner, status))).toEqual([400, 'validation_failed']);
  }
});
