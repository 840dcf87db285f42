import { createApp } from '../../../api/app.ts';
import { User } from '../../../db/accounts/user.entity.ts';
import { maxUsersPerAccount } from '../../../db/accounts/user-management.ts';
import type { UserId } from '../../../domain/ids.ts';
import { ContractClient, type Json, type Reply } from '../contract-client.ts';
import { type Caller, startApi, type TestApi } from '../test-api.ts';

const users = '/v1/user-management/users';
let api: TestApi;
/** Another process of the API on the same database. */
let replica: ContractClient;
/** Root of an account, and not an admin. */
let root: Caller;
let member: Caller;
let counter = 0;

beforeAll(async () => {
  api = await startApi({ env: { PLATFORM_RATE_LIMIT_PER_ADDRESS: '0', PLATFORM_RATE_LIMIT_PER_KEY: '0' } });
  const app = createApp(api.dependencies);
  await app.ready();
  replica = await ContractClient.of(app);
});
beforeEach(async () => {
  root = await api.addAccount();
  member = await api.addUser(root);
});
afterAll(() => api.stop());

const newUser = (fields: Json = {}) => {
  counter += 1;
  return { email: `new-${counter}@example.com`, username: `new-${counter}`, role: 'user', ...fields };
};
const create = (fields: Json = {}, by = root) => api.send(by, 'POST', users, newUser(fields));
const read = async (userId: UserId, by = root) => (await api.send(by, 'GET', `${users}/${userId}`)).body.data;
const change = (userId: UserId, body: Json, by = root) => api.send(by, 'PUT', `${users}/${userId}`, body);
const readCode = (reply: Reply) => [reply.status, reply.body.code];
const signIn = (email: string, password: string) => api.send(null, 'POST', '/v1/auth/sign-in', { email, password });

async function addRoot(): Promise<Caller> {
  const other = await api.addUser(root);
  await api.orm.em.fork().nativeUpdate(User, { userId: other.userId }, { isRootUser: true });
  return other;
}

describe('create', () => {
  test('with every field; the user signs in with the initial password, which is shown once', async () => {
    const wanted = newUser({ display_name: 'Grace Hopper', description: 'who they are', status: 'enabled' });
    const { status, body } = await api.send(root, 'POST', users, wanted);
    expect(status).toBe(201);
    const { user, initial_password: password } = body.data;
    expect(body.data).toEqual({
      message: 'The user is created',
      user: {
        ...wanted,
        user_id: expect.stringMatching(/^usr-/),
        is_root_user: false,
        email_verified: false,
        created_at: expect.any(String),
        last_login: null,
      },
      initial_password: expect.stringMatching(/^([a-z2-8]{5}-){3}[a-z2-8]{5}$/),
      dedicated_signin_url: expect.stringMatching(/^http:.*\/console\/sign-in$/),
    });
    expect(await read(user.user_id)).toEqual(user);
    const session = await signIn(wanted.email.toUpperCase(), password);
    expect(session.status).toBe(200);
    const headers = { authorization: `Bearer ${session.body.data.access_token}` };
    const profile = (await api.client.send('GET', '/v1/users/me', { headers })).body.data;
    expect(profile).toMatchObject({ user_id: user.user_id, account_id: root.accountId, has_local_password: true });
    expect(profile).toMatchObject({ email_verified: false, last_login: expect.any(String) });
    const [listed] = (await api.send(root, 'GET', users)).body.data.users;
    expect(listed).toMatchObject({ user_id: user.user_id, last_login: profile.last_login });
    const made = await api.client.send('POST', '/v1/sandboxes', { headers, body: {} });
    expect([made.status, made.body.data.owner_user_id]).toEqual([201, user.user_id]);
    expect(JSON.stringify(api.log)).not.toContain(password);
  });

  test('with only the required fields, and with zero values of typed clients', async () => {
    const { body } = await create({ display_name: '', status: '', description: '' });
    const { username } = body.data.user;
    expect(body.data.user).toMatchObject({ display_name: username, status: 'enabled', description: '' });
  });

  test('a repeated request makes one user, and does not return the password again', async () => {
    const wanted = newUser();
    const headers = { 'idempotency-key': wanted.username };
    const first = await api.send(root, 'POST', users, wanted, { headers });
    const again = await api.send(root, 'POST', users, wanted, { headers });
    expect(again.body.data).toEqual({ ...first.body.data, initial_password: '' });
    const stored = JSON.stringify(await api.orm.em.fork().execute('select * from idempotency_keys'));
    expect(stored).not.toContain(first.body.data.initial_password);
  });

  test('the operator names the page for signing in', async () => {
    const console = await startApi({ env: { PLATFORM_CONSOLE_URL: 'https://console.example.com/' } });
    const { body } = await console.send(console.root, 'POST', users, newUser());
    expect(body.data.dedicated_signin_url).toBe('https://console.example.com/sign-in');
    await console.stop();
  });

  test('with a mail server the user is invited: no password is made', async () => {
    const mailing = await startApi({ env: { SMTP_URL: 'smtp://127.0.0.1:1' } });
    const { body } = await mailing.send(mailing.root, 'POST', users, newUser());
    const { user, initial_password: password, message } = body.data;
    expect([password, message]).toEqual(['', 'The user is created and invited by a mail']);
    const em = mailing.orm.em.fork();
    expect((await em.findOneOrFail(User, { userId: user.user_id })).passwordHash).toBeNull();
    const [start] = (await em.execute("select * from outbox where workflow_type = 'userInvitation'")) as Json[];
    expect([start.workflow_id, start.input]).toEqual([
      `${user.user_id}/invitation`,
      { userId: user.user_id, accountId: mailing.root.accountId },
    ]);
    const disabled = await mailing.send(mailing.root, 'POST', users, newUser({ status: 'disabled' }));
    expect(disabled.body.data.initial_password).not.toBe('');
    await mailing.stop();
  });

  test('e-mails are unique in any case and over all accounts, user names in any case in an account', async () => {
    const { user } = (await create()).body.data;
    const foreign = await api.addAccount();
    for (const by of [root, foreign]) {
      expect(readCode(await create({ email: user.email.toUpperCase() }, by))).toEqual([409, 'email_taken']);
    }
    expect(readCode(await create({ username: user.username.toUpperCase() }))).toEqual([409, 'username_taken']);
    expect((await create({ username: user.username }, foreign)).status).toBe(201);
  });

  test('ten concurrent creates with one e-mail, or one user name, make one user', async () => {
    for (const same of [{ email: 'same@example.com' }, { username: 'same' }]) {
      const replies = await Promise.all(Array.from({ length: 10 }, () => create(same)));
      expect(replies.filter(({ status }) => status === 201)).toHaveLength(1);
      expect(replies.filter(({ status }) => status === 409)).toHaveLength(9);
    }
  });

  test.each([
    ['no e-mail', { email: 'nobody' }],
    ['an empty one', { email: '' }],
    ['a letter of another script that looks like ours', { email: 'аda@example.com' }],
    ['wide letters', { email: 'ａda@example.com' }],
    ['a header of a mail', { email: 'a@example.com\r\nBcc: all@example.com' }],
    ['two addresses', { email: 'a@example.com, b@example.com' }],
    ['a role that is none', { role: 'root' }],
    ['no role', { role: undefined }],
    ['a status that is none', { status: 'deleted' }],
  ])('%s is refused', async (_what, fields) => {
    expect(readCode(await create(fields))).toEqual([400, 'validation_failed']);
  });

  test.each([
    ['user name', 'username', ['', ' ', 'a b', 'a\r\nBcc: x', 'аda', '-a', 'x'.repeat(65), '<script>', '"']],
    ['display name', 'display_name', ['  ', 'a\r\nBcc: x@example.com', 'a\u202eb', 'x'.repeat(65), 'a\u0000b']],
  ])('a %s that could be read as something else is refused', async (_what, field, names) => {
    for (const name of names) {
      const { status, body } = await create({ [field]: name });
      expect([name, status]).toEqual([name, 400]);
      if (body.code === 'invalid_name') expect(body.details).toEqual([{ path: field, reason: expect.any(String) }]);
    }
  });

  test('only an admin makes an admin; a user cannot make users', async () => {
    expect(readCode(await create({ role: 'admin' }))).toEqual([403, 'admin_required']);
    expect(readCode(await create({}, member))).toEqual([403, 'root_required']);
    expect((await create({ role: 'admin' }, api.root)).body.data.user).toMatchObject({
      role: 'admin',
      is_root_user: false,
    });
  });

  test('an account has a limit of users', async () => {
    await api.orm.em.fork().execute(
      `insert into users (user_id, account_id, email, username, display_name)
       select 'usr-' || md5(? || n), ?, md5(? || n) || '@example.com', 'many-' || n, 'Many' from generate_series(1, ?) n`,
      [root.userId, root.accountId, root.userId, maxUsersPerAccount - 3],
    );
    const replies = await Promise.all([create(), create(), create()]);
    expect(replies.map(readCode).filter(([status]) => status !== 201)).toEqual(
      Array(2).fill([400, 'user_limit_reached']),
    );
  });
});

describe('list and get', () => {
  test('the users of the account, newest first, by status', async () => {
    const { user } = (await create({ status: 'disabled' })).body.data;
    const { description, ...item } = user;
    const listed = async (query = '') => (await api.send(root, 'GET', `${users}${query}`)).body.data;
    const all = await listed();
    expect(all.users[0]).toEqual(item);
    expect(all.users.map((each: Json) => each.user_id)).toEqual([user.user_id, member.userId, root.userId]);
    expect((await listed('?status=disabled')).users).toEqual([item]);
    expect((await listed('?status=enabled&limit=1')).pagination).toMatchObject({ total: 2, limit: 1 });
    expect(readCode(await api.send(root, 'GET', `${users}?status=gone`))).toEqual([400, 'validation_failed']);
  });

  test('a user of another account is not found', async () => {
    const stranger = await api.addAccount();
    for (const [method, body] of [['GET'], ['PUT', {}]] as const) {
      const reply = await api.send(stranger, method, `${users}/${member.userId}`, body);
      expect(readCode(reply)).toEqual([404, 'not_found']);
    }
  });
});

describe('change', () => {
  test('every field; missing fields stay unchanged', async () => {
    const fields = { display_name: 'Other', description: 'changed', status: 'disabled' };
    expect((await change(member.userId, fields)).body.message).toBe('The user is changed');
    expect(await read(member.userId)).toMatchObject(fields);
    await change(member.userId, { role: '', status: '', display_name: '' });
    await change(member.userId, {});
    expect(await read(member.userId)).toMatchObject({ ...fields, role: 'user' });
    expect(readCode(await change(member.userId, { display_name: 'a\nb' }))).toEqual([400, 'invalid_name']);
  });

  test('only an admin gives and takes admin', async () => {
    expect(readCode(await change(member.userId, { role: 'admin' }))).toEqual([403, 'admin_required']);
    const colleague = await api.addUser(api.root);
    expect((await change(colleague.userId, { role: 'admin' }, api.root)).status).toBe(200);
    expect(await read(colleague.userId, api.root)).toMatchObject({ role: 'admin' });
    await api.orm.em.fork().nativeUpdate(User, { userId: member.userId }, { role: 'admin' });
    expect(readCode(await change(member.userId, { role: 'user' }))).toEqual([403, 'admin_required']);
    expect((await change(member.userId, { role: 'admin', description: 'as before' })).status).toBe(200);
  });

  test('a root user makes and takes other root users; the last enabled one stays one', async () => {
    const plain = { is_root_user: false };
    expect(readCode(await change(root.userId, plain))).toEqual([400, 'last_root_user']);
    expect((await change(member.userId, { is_root_user: true })).status).toBe(200);
    expect(await read(member.userId)).toMatchObject({ is_root_user: true });
    expect((await change(root.userId, plain, member)).status).toBe(200);
    expect(readCode(await change(member.userId, plain, root))).toEqual([403, 'root_required']);
    expect(readCode(await api.send(root, 'PUT', '/v1/users/me', { is_root_user: true }))).toEqual([
      403,
      'root_required',
    ]);
    expect(readCode(await api.send(member, 'PUT', '/v1/users/me', plain))).toEqual([400, 'last_root_user']);
    const email = `second-${Date.now()}@example.com`;
    const made = await api.send(member, 'POST', '/v1/user-management/users', {
      ...{ email, username: 'second', role: 'user', is_root_user: true },
    });
    expect(made.body.data.user.is_root_user).toBe(true);
    expect((await api.send(member, 'PUT', '/v1/users/me', plain)).status).toBe(200);
  });

  test('the last enabled root user stays enabled, for any caller, and also with concurrent requests', async () => {
    const disable = { status: 'disabled' };
    expect(readCode(await change(root.userId, disable))).toEqual([400, 'last_root_user']);
    expect(readCode(await api.send(root, 'PUT', '/v1/users/me', disable))).toEqual([400, 'last_root_user']);
    const other = await addRoot();
    const replies = await Promise.all([change(other.userId, disable), change(root.userId, disable, other)]);
    // The caller of the second may be disabled already when it arrives.
    expect(replies.filter(({ status }) => status === 200)).toHaveLength(1);
    const { total } = (await api.send((await enabledRoot()) ?? root, 'GET', `${users}?status=disabled`)).body.data
      .pagination;
    expect(total).toBe(1);

    async function enabledRoot(): Promise<Caller | undefined> {
      const rows = await api.orm.em
        .fork()
        .find(User, { accountId: root.accountId, status: 'enabled', isRootUser: true });
      return [root, other].find(({ userId }) => rows.some((row) => row.userId === userId));
    }
  });
});

describe('your own profile', () => {
  const update = (body: Json, by: Caller) => api.send(by, 'PUT', '/v1/users/me', body);
  const profile = async (by: Caller) => (await api.send(by, 'GET', '/v1/users/me')).body.data;

  test('users can change their name and description', async () => {
    const fields = { display_name: 'Ada', description: 'me' };
    expect((await update({ ...fields, role: '', status: '' }, member)).body.message).toBe('The profile is changed');
    expect(await profile(member)).toMatchObject(fields);
    expect(readCode(await update({ display_name: 'a\u0007' }, member))).toEqual([400, 'invalid_name']);
    expect(readCode(await update({ role: 'king' }, member))).toEqual([400, 'validation_failed']);
  });

  test('role and status are for root users, and admin is for admins', async () => {
    for (const body of [{ role: 'user' }, { role: 'admin' }, { status: 'disabled' }, { status: 'enabled' }]) {
      expect(readCode(await update(body, member))).toEqual([403, 'root_required']);
    }
    expect(readCode(await update({ role: 'admin' }, root))).toEqual([403, 'admin_required']);
    expect((await update({ role: 'user', status: 'enabled' }, root)).status).toBe(200);
    const other = await addRoot();
    expect((await update({ status: 'disabled' }, other)).status).toBe(200);
    expect(await read(other.userId)).toMatchObject({ status: 'disabled' });
  });
});

test('disabling a user ends keys, tokens and links at once on every replica; enabling brings the keys back', async () => {
  const { user, initial_password: password } = (await create()).body.data;
  const token = (await signIn(user.email, password)).body.data.access_token;
  const bearer = { headers: { authorization: `Bearer ${token}` } };
  const key = (await api.client.send('POST', '/v1/api-keys', { ...bearer, body: { name: 'k' } })).body.data.api_key;
  const outcomes = async () =>
    Promise.all([
      replica.send('GET', '/v1/users/me', { key }),
      replica.send('GET', '/v1/users/me', bearer),
      signIn(user.email, password),
    ]).then((replies) => replies.map(({ status }) => status));
  expect(await outcomes()).toEqual([200, 200, 200]);
  await change(user.user_id, { status: 'disabled' });
  expect(await outcomes()).toEqual([401, 401, 401]);
  await change(user.user_id, { status: 'enabled' });
  expect(await outcomes()).toEqual([200, 401, 200]);
});
