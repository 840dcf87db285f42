import { addAccountLink } from '../../../db/accounts/account-links.ts';
import { startSession } from '../../../db/accounts/sign-ins.ts';
import { User } from '../../../db/accounts/user.entity.ts';
import { Sandbox } from '../../../db/sandboxes/sandbox.entity.ts';
import { purgeSignIns } from '../../../db/upkeep/retention.ts';
import type { Json } from '../contract-client.ts';
import { type Caller, startApi, type TestApi } from '../test-api.ts';

const users = '/v1/user-management/users';
let api: TestApi;
let root: Caller;
let member: Caller;
beforeAll(async () => {
  api = await startApi({ env: { PLATFORM_RATE_LIMIT_PER_KEY: '0' } });
});
beforeEach(async () => {
  root = await api.addAccount();
  member = await api.addUser(root);
});
afterAll(() => api.stop());

const list = async (query = '', by = root): Promise<Json[]> =>
  (await api.send(by, 'GET', `/v1/audit-events${query}`)).body.data.events;
const execute = (sql: string, values: unknown[] = []) => api.orm.em.fork().execute(sql, values);

test('a change records who made it, with which key, from where, and the values before', async () => {
  const change = { display_name: 'Other', status: 'disabled' };
  const reply = await api.send(root, 'PUT', `${users}/${member.userId}`, change, { remoteAddress: '198.51.100.7' });
  expect(await list()).toEqual([
    {
      event_id: expect.stringMatching(/^aud-/),
      account_id: root.accountId,
      actor_user_id: root.userId,
      actor_key_id: root.keyId,
      actor_session_id: null,
      address: '198.51.100.7',
      audited_request_id: reply.headers['x-request-id'],
      action: 'updateUser',
      object_id: member.userId,
      before: { display_name: 'Member', status: 'enabled' },
      after: { display_name: 'Other', status: 'disabled' },
      created_at: expect.any(String),
    },
  ]);
});

test('with an access token, the session is recorded', async () => {
  const attempt = { email: 'any@example.com', address: '192.0.2.1' };
  const session = await startSession(api.orm.em, { userId: root.userId, passwordHash: null }, attempt);
  const token = await api.dependencies.accessTokens.make(session!, root.userId);
  const headers = { authorization: `Bearer ${token}` };
  await api.client.send('PUT', '/v1/users/me', { headers, body: { display_name: 'Ada' } });
  const [event] = await list();
  expect(event).toMatchObject({ actor_key_id: null, actor_session_id: session!.sessionId, action: 'updateProfile' });
});

test('users, accounts, keys, projects and sandboxes: each change is one event, and no secret is in one', async () => {
  const wanted = { email: `${member.userId}@example.com`, username: 'grace', role: 'user', display_name: 'Grace' };
  const made = (await api.send(root, 'POST', users, wanted)).body.data;
  await api.send(root, 'PUT', '/v1/user-management/account', { display_name: 'Engines' });
  const key = (await api.send(member, 'POST', '/v1/api-keys', { name: 'CI' })).body.data;
  await api.send(member, 'PUT', `/v1/api-keys/${key.key_id}/status`, { is_active: false });
  const project = (await api.send(member, 'POST', '/v1/projects', { name: 'Website' })).body.data;
  const sandbox = (await api.send(member, 'POST', '/v1/sandboxes', { env_vars: { PASSWORD: 'hidden-value' } })).body
    .data;
  await api.orm.em.fork().nativeUpdate(Sandbox, { sandboxId: sandbox.sandbox_id }, { status: 'running' });
  const path = `/v1/projects/${project.project_id}/sandboxes/${sandbox.sandbox_id}`;
  expect((await api.send(member, 'POST', `${path}/add`)).status).toBe(200);
  await api.send(root, 'DELETE', `/v1/sandboxes/${sandbox.sandbox_id}`);
  await api.send(root, 'DELETE', `${users}/${made.user.user_id}`);
  const events = (await list()).reverse();
  expect(events.map(({ action, object_id: id, actor_user_id: by }) => [action, id, by])).toEqual([
    ['createUser', made.user.user_id, root.userId],
    ['updateAccount', root.accountId, root.userId],
    ['createApiKey', key.key_id, member.userId],
    ['setApiKeyStatus', key.key_id, member.userId],
    ['createProject', project.project_id, member.userId],
    ['createSandbox', sandbox.sandbox_id, member.userId],
    ['addSandboxToProject', sandbox.sandbox_id, member.userId],
    ['deleteSandbox', sandbox.sandbox_id, root.userId],
    ['deleteUser', made.user.user_id, root.userId],
  ]);
  expect(events[0].after).toMatchObject({ ...wanted, status: 'enabled' });
  expect([events[1].before, events[1].after]).toEqual([{ display_name: 'Owner' }, { display_name: 'Engines' }]);
  const text = JSON.stringify(await execute('select * from audit_events'));
  for (const secret of [made.initial_password, key.api_key, 'hidden-value', 'argon2'])
    expect(text).not.toContain(secret);
});

test('a sign-in, a sign-out and the use of a mailed link are events; a wrong password is not', async () => {
  const { passwords } = api.dependencies;
  const { email } = await api.orm.em.fork().findOneOrFail(User, { userId: member.userId });
  const password = 'korrekt pferd batterie';
  await execute('update users set password_hash = ? where user_id = ?', [
    await passwords.hash(password),
    member.userId,
  ]);
  const from = { remoteAddress: '198.51.100.9' };
  const signIn = (given: string) =>
    api.client.send('POST', '/v1/auth/sign-in', { ...from, body: { email, password: given } });
  expect((await signIn('wrong')).status).toBe(401);
  const signedIn = await signIn(password);
  const headers = { authorization: `Bearer ${signedIn.body.data.access_token}` };
  expect((await api.client.send('POST', '/v1/auth/sign-out', { ...from, headers })).status).toBe(200);
  const token = 'a-token-of-a-mailed-link';
  const link = { token, purpose: 'password-reset' as const, userId: member.userId, provesEmail: true };
  await addAccountLink(api.orm.em, { ...link, expiresAt: new Date(Date.now() + 60_000) });
  const reset = await api.client.send('POST', '/v1/auth/reset-password', {
    ...from,
    body: { token, new_password: 'batterie pferd korrekt' },
  });
  expect(reset.status).toBe(200);
  const events = (await list()).reverse();
  expect(events).toMatchObject([
    { action: 'signIn', audited_request_id: signedIn.headers['x-request-id'], object_id: member.userId },
    { action: 'signOut', actor_session_id: events[0].actor_session_id },
    { action: 'resetPassword', audited_request_id: reset.headers['x-request-id'], object_id: member.userId },
  ]);
  const { actor_session_id: session } = events[0];
  expect(session).toMatch(/^ses-/);
  for (const event of events) {
    expect(event).toMatchObject({ account_id: root.accountId, actor_user_id: member.userId, actor_key_id: null });
    expect(event.address).toBe('198.51.100.9');
  }
});

test("the account's quota: the values before and after", async () => {
  const allocations = '/v1/user-management/quota-allocations';
  const first = (await api.send(root, 'POST', allocations, { concurrent_sandboxes: 7 })).body.data.allocation_id;
  const second = (await api.send(root, 'POST', allocations, { concurrent_sandboxes: 8 })).body.data.allocation_id;
  await api.send(root, 'DELETE', `${allocations}/${second}`);
  const events = (await list()).reverse();
  expect(events.map(({ action, object_id, before, after }) => [action, object_id, before, after])).toEqual([
    ['createQuotaAllocation', first, null, expect.objectContaining({ user_id: null, concurrent_sandboxes: 7 })],
    [
      ...['createQuotaAllocation', second, { allocation_id: first, concurrent_sandboxes: 7 }],
      { allocation_id: second, concurrent_sandboxes: 8 },
    ],
    ['deleteQuotaAllocation', second, expect.objectContaining({ user_id: null, status: 'active' }), null],
  ]);
});

test('quotas, keys and projects: the values before and after', async () => {
  const allocations = '/v1/user-management/quota-allocations';
  const first = await api.send(root, 'POST', allocations, { user_id: member.userId, concurrent_sandboxes: 1 });
  const second = await api.send(root, 'POST', allocations, { user_id: member.userId, concurrent_sandboxes: 2 });
  const [id, newId] = [first, second].map(({ body }) => body.data.allocation_id);
  await api.send(root, 'PUT', `${allocations}/${newId}`, { concurrent_sandboxes: 3 });
  await api.send(root, 'POST', `${allocations}/${newId}/revoke`);
  await api.send(root, 'DELETE', `${allocations}/${newId}`);
  const wanted = { cpu_seconds_monthly: 5, template_storage_gb: 1, reason: 'more' };
  const request = await api.send(member, 'POST', '/v1/usage/quota-requests', wanted);
  const requestId = request.body.data.request_id;
  await api.send(root, 'POST', `/v1/user-management/quota-requests/${requestId}/review`, { action: 'approve' });
  await api.send(member, 'PUT', `/v1/api-keys/${member.keyId}`, { name: 'renamed' });
  await api.send(root, 'PUT', `/v1/projects/${member.projectId}`, { name: 'Renamed' });
  await api.send(root, 'PUT', `/v1/api-keys/${member.keyId}/status`, { is_active: false });
  await api.send(root, 'DELETE', `/v1/api-keys/${member.keyId}`);
  const events = (await list()).reverse();
  expect(events.map(({ action, before, after }) => [action, before, after])).toEqual([
    ['createQuotaAllocation', null, expect.objectContaining({ allocation_id: id, concurrent_sandboxes: 1 })],
    [
      'createQuotaAllocation',
      { allocation_id: id, concurrent_sandboxes: 1 },
      { allocation_id: newId, concurrent_sandboxes: 2 },
    ],
    ['updateQuotaAllocation', { concurrent_sandboxes: 2 }, { concurrent_sandboxes: 3 }],
    ['revokeQuotaAllocation', { status: 'active' }, { status: 'revoked' }],
    ['deleteQuotaAllocation', expect.objectContaining({ concurrent_sandboxes: 3, status: 'revoked' }), null],
    ['createQuotaRequest', null, expect.objectContaining({ cpu_seconds_monthly: 5 })],
    ['reviewQuotaRequest', { status: 'pending' }, { status: 'approved' }],
    ['reviewQuotaRequest', null, expect.objectContaining({ user_id: member.userId, cpu_seconds_monthly: 5 })],
    ['updateApiKey', { name: 'default' }, { name: 'renamed' }],
    ['updateProject', { name: 'Default' }, { name: 'Renamed' }],
    ['setApiKeyStatus', { is_active: true }, { is_active: false }],
    ['deleteApiKey', expect.objectContaining({ name: 'renamed', is_active: false }), null],
  ]);
});

test('refusals, reads, and replies repeated for an Idempotency-Key are not recorded', async () => {
  await api.send(member, 'PUT', '/v1/user-management/account', { display_name: 'No' });
  await api.send(root, 'PUT', '/v1/users/me', { display_name: 'a\nb' });
  await api.send(root, 'PUT', '/v1/users/me', { status: 'disabled' });
  await api.send(root, 'GET', '/v1/users/me');
  expect(await list()).toEqual([]);
  const headers = { 'idempotency-key': 'once' };
  for (let i = 0; i < 2; i++) await api.send(root, 'POST', '/v1/projects', { name: 'Once' }, { headers });
  expect((await list()).map(({ action }) => action)).toEqual(['createProject']);
});

test('filters by time, actor, object and action, and shows only one account', async () => {
  await api.send(root, 'POST', '/v1/projects', { name: 'One' });
  await api.send(member, 'POST', '/v1/projects', { name: 'Two' });
  await api.send(root, 'PUT', `${users}/${member.userId}`, { description: 'changed' });
  const actions = async (query: string) => (await list(query)).map(({ action }) => action);
  expect(await actions('')).toEqual(['updateUser', 'createProject', 'createProject']);
  expect(await actions(`?actor_user_id=${member.userId}`)).toEqual(['createProject']);
  expect(await actions(`?object_id=${member.userId}`)).toEqual(['updateUser']);
  expect(await actions('?action=project&limit=1')).toEqual(['createProject']);
  const [newest] = await list();
  const later = new Date(Date.parse(newest.created_at) + 1000).toISOString();
  expect(await actions(`?start=${newest.created_at}`)).toContain('updateUser');
  expect(await actions(`?start=${later}`)).toEqual([]);
  expect(await actions(`?end=${new Date(Date.now() - 3_600_000).toISOString()}`)).toEqual([]);
  expect((await api.send(root, 'GET', '/v1/audit-events?start=yesterday')).body.code).toBe('validation_failed');
  expect((await api.send(member, 'GET', '/v1/audit-events')).body.code).toBe('root_required');
  const foreign = await api.addAccount();
  expect(await list(`?object_id=${member.userId}`, foreign)).toEqual([]);
});

test('the database refuses to change events, and to remove them within a year', async () => {
  await api.send(root, 'POST', '/v1/projects', { name: 'Kept' });
  const statements = [
    'update audit_events set action = null',
    'delete from audit_events',
    'truncate audit_events',
    "update audit_events set created_at = '2020-01-01'",
  ];
  for (const sql of statements) await expect(execute(sql)).rejects.toThrow('audit events are kept as they are');
  expect(await list()).toHaveLength(1);
  await execute(
    `insert into audit_events (event_id, account_id, address, request_id, action, created_at)
     values ('aud-old', ?, 'a', 'r', 'old', now() - interval '366 days')`,
    [root.accountId],
  );
  expect(await purgeSignIns(api.orm.em)).toBe(1);
  expect((await list()).map(({ action }) => action)).toEqual(['createProject']);
});

test('a change and its event are made in one transaction', async () => {
  await execute("alter table audit_events add constraint refused check (action <> 'updateUser') not valid");
  const reply = await api.send(root, 'PUT', `${users}/${member.userId}`, { description: 'changed' });
  await execute('alter table audit_events drop constraint refused');
  expect([reply.status, reply.body.code]).toEqual([500, 'internal_error']);
  const { description } = await api.orm.em.fork().findOneOrFail(User, { userId: member.userId });
  expect(description).toBe('');
});
