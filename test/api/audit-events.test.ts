import { Sandbox } from '../../db/entities/sandbox.ts';
import { User } from '../../db/entities/user.ts';
import { purgeSignIns } from '../../db/repositories/retention.ts';
import { startSession } from '../../db/repositories/sign-ins.ts';
import type { Json } from './contract-client.ts';
import { type Caller, startApi, type TestApi } from './test-api.ts';

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

test('a change tells who made it, with which key, from where, and what was before', async () => {
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

test('with an access token, the session is told', async () => {
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

test('what is refused, read, or given again for an Idempotency-Key is no event', async () => {
  await api.send(member, 'PUT', '/v1/user-management/account', { display_name: 'No' });
  await api.send(root, 'PUT', '/v1/users/me', { display_name: 'a\nb' });
  await api.send(root, 'PUT', '/v1/users/me', { status: 'disabled' });
  await api.send(root, 'GET', '/v1/users/me');
  expect(await list()).toEqual([]);
  const headers = { 'idempotency-key': 'once' };
  for (let i = 0; i < 2; i++) await api.send(root, 'POST', '/v1/projects', { name: 'Once' }, { headers });
  expect((await list()).map(({ action }) => action)).toEqual(['createProject']);
});

test('filters by time, actor, object and action, and shows one account alone', async () => {
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

test('events are kept as they are: the database refuses to change or remove one for a year', async () => {
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

test('a change and its event are made together or not at all', async () => {
  await execute("alter table audit_events add constraint refused check (action <> 'updateUser') not valid");
  const reply = await api.send(root, 'PUT', `${users}/${member.userId}`, { description: 'changed' });
  await execute('alter table audit_events drop constraint refused');
  expect([reply.status, reply.body.code]).toEqual([500, 'internal_error']);
  const { description } = await api.orm.em.fork().findOneOrFail(User, { userId: member.userId });
  expect(description).toBe('');
});
