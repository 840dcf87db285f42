import { Account } from '../../../db/accounts/account.entity.ts';
import { User } from '../../../db/accounts/user.entity.ts';
import { startApi, type TestApi } from '../test-api.ts';

let api: TestApi;
beforeAll(async () => {
  api = await startApi();
});
afterAll(() => api.stop());

test('the profile of a root admin as the first start made it', async () => {
  const { body } = await api.send(api.root, 'GET', '/v1/users/me');
  expect(body.data).toMatchObject({
    user_id: api.root.userId,
    account_id: api.root.accountId,
    role: 'admin',
    status: 'enabled',
    is_root_user: true,
    email_verified: false,
    last_login: null,
    oauth_provider: null,
    oauth_provider_id: null,
    has_local_password: false,
    avatar_url: null,
  });
});

test('the profile of a user with all fields', async () => {
  const member = await api.addUser(api.root);
  const em = api.orm.em.fork();
  const lastLogin = new Date('2026-03-04T05:06:07.000Z');
  await em.nativeUpdate(
    User,
    { userId: member.userId },
    {
      description: 'who they are',
      emailVerified: true,
      lastLogin,
      oauthProvider: 'github',
      oauthProviderId: '42',
      passwordHash: '$argon2id$something',
      avatarUrl: 'https://example.com/a.png',
    },
  );
  await em.nativeUpdate(Account, { accountId: member.accountId }, { description: 'what we do', isVerified: true });
  const user = await em.findOneOrFail(User, { userId: member.userId });
  const account = await em.findOneOrFail(Account, { accountId: member.accountId });
  const reply = await api.send(member, 'GET', '/v1/users/me');
  expect(reply.body.data).toEqual({
    user_id: member.userId,
    account_id: member.accountId,
    email: user.email,
    username: user.username,
    display_name: 'Member',
    role: 'user',
    status: 'enabled',
    is_root_user: false,
    email_verified: true,
    description: 'who they are',
    last_login: lastLogin.toISOString(),
    created_at: user.createdAt.toISOString(),
    oauth_provider: 'github',
    oauth_provider_id: '42',
    has_local_password: true,
    avatar_url: 'https://example.com/a.png',
    account: {
      account_id: member.accountId,
      email: account.email,
      display_name: 'Root',
      description: 'what we do',
      status: 'active',
      is_verified: true,
      created_at: account.createdAt.toISOString(),
    },
  });
  expect(reply.text).not.toContain('argon2id');
});

test('the four plans with their limits; money is a number', async () => {
  const { body } = await api.send(api.root, 'GET', '/v1/user-management/plans');
  expect(body.data.plans.map((plan: { plan_name: string }) => plan.plan_name)).toEqual([
    'hobby',
    'pro',
    'team',
    'enterprise',
  ]);
  expect(body.data.plans[0]).toMatchObject({ is_free: true, price_amount: 0, max_concurrent_sandboxes: 10 });
  expect(body.data.plans[1]).toEqual({
    plan_name: 'pro',
    display_name: 'Pro',
    description: 'For people who build with sandboxes every day',
    price_amount: 49,
    currency: 'USD',
    billing_interval: 'month',
    is_free: false,
    max_concurrent_sandboxes: 50,
    max_cpu_cores_per_sandbox: 8,
    max_memory_gb_per_sandbox: 16,
    max_storage_gb_per_sandbox: 40,
    max_sandbox_timeout_seconds: 86400,
    persistence_days: 30,
  });
});
