import { ApiKey } from '../../../db/accounts/api-key.entity.ts';
import { User } from '../../../db/accounts/user.entity.ts';
import { isApiKeyShape, spellForE2b } from '../../../domain/accounts/api-key.ts';
import type { Json } from '../contract-client.ts';
import { type Caller, startApi, type TestApi } from '../test-api.ts';

let api: TestApi;
let member: Caller;
beforeAll(async () => {
  api = await startApi();
});
beforeEach(async () => {
  member = await api.addUser(api.root);
});
afterAll(() => api.stop());

const create = (body: Json, caller = member) => api.send(caller, 'POST', '/v1/api-keys', body);

test('a key that code puts into a log entry is not written, in neither spelling', async () => {
  const reply = { api_key: 'spk_secret', e2b_api_key: 'e2b_secret', envd_access_token: 'token-secret' };
  api.dependencies.logger.info({ reply, headers: { 'x-api-key': 'e2b_secret', authorization: 'Api-Key spk_secret' } });
  const line = api.log.at(-1)!;
  expect(JSON.parse(line).reply).toEqual(Object.fromEntries(Object.keys(reply).map((name) => [name, '[secret]'])));
  expect(line).not.toMatch(/_secret|-secret/);
});

describe('create', () => {
  test('a key with every field; its secret works and is stored nowhere', async () => {
    const { status, body } = await create({ name: ' CI (main) ', description: 'for the build' });
    expect(status).toBe(201);
    const secret = body.data.api_key;
    expect(isApiKeyShape(secret)).toBe(true);
    expect(body.data).toEqual({
      key_id: expect.stringMatching(/^key-/),
      name: 'CI (main)',
      description: 'for the build',
      api_key: secret,
      e2b_api_key: spellForE2b(secret),
      prefix: secret.slice(0, 8),
      is_active: true,
      created_at: expect.any(String),
      max_active_api_keys: 5,
      owner: {
        user_id: member.userId,
        username: expect.stringMatching(/^member-/),
        display_name: 'Member',
        email: expect.stringMatching(/@example.com$/),
      },
    });
    const used = await api.send({ ...member, key: secret }, 'GET', '/v1/users/me');
    expect(used.body.data.user_id).toBe(member.userId);
    const read = await api.send(member, 'GET', `/v1/api-keys/${body.data.key_id}`);
    expect(read.body.data).toEqual({
      key_id: body.data.key_id,
      name: 'CI (main)',
      description: 'for the build',
      prefix: secret.slice(0, 12),
      is_active: true,
      last_used_at: expect.any(String),
      created_at: body.data.created_at,
      updated_at: body.data.created_at,
      owner: body.data.owner,
    });
    // Postgres writes bytes in rows as hexadecimal.
    const stored = JSON.stringify(await api.orm.em.fork().execute('select api_keys::text as row from api_keys'));
    expect(stored).toContain(secret.slice(0, 12));
    for (const written of [secret, Buffer.from(secret).toString('hex')]) expect(stored).not.toContain(written);
    expect(api.log.join('\n')).toContain('/v1/api-keys');
    for (const written of [secret, spellForE2b(secret)]) expect(api.log.join('\n')).not.toContain(written);
  });

  test.each([
    [{}, 400, 'validation_failed'],
    [{ name: null }, 400, 'validation_failed'],
    [{ name: '' }, 400, 'invalid_name'],
    [{ name: 'x'.repeat(65) }, 400, 'invalid_name'],
    [{ name: 'a\tb' }, 400, 'invalid_name'],
    [{ name: 'bell\u0007' }, 400, 'invalid_name'],
    [{ name: 'ok', description: 5 }, 400, 'validation_failed'],
    [{ name: 'DEFAULT' }, 409, 'api_key_name_taken'],
  ])('%j is %d %s', async (body, status, code) => {
    const before = await api.counts();
    const reply = await create(body);
    expect([reply.status, reply.body.code]).toEqual([status, code]);
    expect(await api.counts()).toEqual(before);
  });

  test('the number of disabled keys is limited', async () => {
    await api.orm.em.fork().execute(
      `insert into api_keys (key_id, account_id, user_id, name, secret_hash, prefix, is_active)
       select 'key-' || ? || n, ?, ?, 'disabled ' || n, 'hash ' || ? || n, 'p', false from generate_series(1, 99) n`,
      [member.userId, member.accountId, member.userId, member.userId],
    );
    const refused = await create({ name: 'one more' });
    expect([refused.status, refused.body.code]).toEqual([400, 'api_key_limit_reached']);
    expect(refused.body.error).toContain('100 API keys, disabled ones included');
  });

  test('concurrent creates make no more keys than a user may have active', async () => {
    const replies = await Promise.all(Array.from({ length: 20 }, (_, n) => create({ name: `key ${n}` })));
    const refused = replies.filter((reply) => reply.status !== 201);
    expect(refused).toHaveLength(16);
    for (const reply of refused) expect([reply.status, reply.body.code]).toEqual([400, 'api_key_limit_reached']);
    expect(await api.orm.em.fork().count(ApiKey, { userId: member.userId, isActive: true })).toBe(5);
  });

  test('concurrent changes enable no more keys than allowed, and concurrent creates with one name make one', async () => {
    const keyIds: string[] = [];
    for (let n = 0; n < 8; n++) {
      const { key_id: keyId } = (await create({ name: `key ${n}` })).body.data;
      await api.send(member, 'PUT', `/v1/api-keys/${keyId}/status`, { is_active: false });
      keyIds.push(keyId);
    }
    const enabled = await Promise.all(
      keyIds.map((keyId) => api.send(member, 'PUT', `/v1/api-keys/${keyId}/status`, { is_active: true })),
    );
    // The calling key is one of the five.
    expect(enabled.map(({ status }) => status).sort()).toEqual([200, 200, 200, 200, 400, 400, 400, 400]);
    const other = await api.addUser(api.root);
    const same = await Promise.all(
      Array.from({ length: 4 }, () => api.send(other, 'POST', '/v1/api-keys', { name: 'same' })),
    );
    expect(same.map(({ status }) => status).sort()).toEqual([201, 409, 409, 409]);
  });

  test("a user's own limit takes precedence over the plan's", async () => {
    await api.orm.em.fork().nativeUpdate(User, { userId: member.userId }, { maxActiveApiKeys: 2 });
    const first = await create({ name: 'one' });
    expect(first.body.data.max_active_api_keys).toBe(2);
    expect((await create({ name: 'two' })).body.code).toBe('api_key_limit_reached');
    expect((await api.send(member, 'GET', '/v1/api-keys')).body.data.max_active_api_keys).toBe(2);
    const byRoot = await api.send(api.root, 'GET', `/v1/api-keys?user_id=${member.userId}`);
    expect(byRoot.body.data.max_active_api_keys).toBe(2);
  });
});

describe('list', () => {
  test('own keys, filtered and sorted; the root sees the account', async () => {
    const { key_id: beta } = (await create({ name: 'beta' })).body.data;
    await create({ name: 'alpha' });
    await api.send(member, 'PUT', `/v1/api-keys/${beta}/status`, { is_active: false });
    const names = async (query: string, caller = member) => {
      const { status, body } = await api.send(caller, 'GET', `/v1/api-keys${query}`);
      expect(status).toBe(200);
      return body.data.api_keys.map((item: Json) => item.name);
    };
    expect(await names('')).toEqual(['alpha', 'beta', 'default']);
    expect(await names('?status=active')).toEqual(['alpha', 'default']);
    expect(await names('?status=inactive')).toEqual(['beta']);
    expect(await names('?search=ET')).toEqual(['beta']);
    expect(await names('?sort_by=name&sort_order=asc')).toEqual(['alpha', 'beta', 'default']);
    expect((await names('?sort_by=last_used_at'))[0]).toBe('default');
    expect(await names('?limit=1&page=2')).toEqual(['beta']);
    expect(await names(`?user_id=${member.userId}`, api.root)).toEqual(['alpha', 'beta', 'default']);
    expect((await names('?limit=100', api.root)).length).toBeGreaterThan(3);
    const page = await api.send(member, 'GET', '/v1/api-keys?limit=2');
    expect(page.body.data.pagination).toEqual({
      page: 1,
      limit: 2,
      total: 3,
      total_pages: 2,
      offset: 0,
      next_cursor: expect.any(String),
    });
    expect(page.body.data.max_active_api_keys).toBe(5);
    expect(page.text).not.toContain('api_key"');
  });

  test.each([
    ['?status=on', 400, 'validation_failed'],
    ['?sort_by=secret_hash', 400, 'validation_failed'],
    ['?limit=-1', 400, 'invalid_pagination'],
    ['?user_id=usr-other', 403, 'root_required'],
  ])('%s is %d', async (query, status, code) => {
    const reply = await api.send(member, 'GET', `/v1/api-keys${query}`);
    expect([reply.status, reply.body.code]).toEqual([status, code]);
  });
});

test('update: name and description, each alone; a used name is 409', async () => {
  const { key_id: id, created_at: createdAt } = (await create({ name: 'before' })).body.data;
  const put = (body: Json) => api.send(member, 'PUT', `/v1/api-keys/${id}`, body);
  const renamed = await put({ name: 'after' });
  expect(renamed.body.data).toEqual({
    key_id: id,
    name: 'after',
    description: '',
    prefix: expect.stringMatching(/^spk_.{8}$/),
    is_active: true,
    last_used_at: null,
    created_at: createdAt,
    updated_at: expect.any(String),
  });
  expect(Date.parse(renamed.body.data.updated_at)).toBeGreaterThan(Date.parse(createdAt));
  expect((await put({ description: 'why' })).body.data).toMatchObject({ name: 'after', description: 'why' });
  expect((await put({})).status).toBe(200);
  const taken = await put({ name: 'Default' });
  expect([taken.status, taken.body.code]).toEqual([409, 'api_key_name_taken']);
  expect((await put({ name: '' })).body.code).toBe('invalid_name');
});

test('a disabled key stops at once and frees its place; enabling it again needs a place', async () => {
  const keys = [];
  for (const name of ['a', 'b', 'c', 'd']) keys.push((await create({ name })).body.data);
  expect((await create({ name: 'e' })).body.code).toBe('api_key_limit_reached');
  const [first] = keys;
  const set = (id: string, isActive: boolean) =>
    api.send(member, 'PUT', `/v1/api-keys/${id}/status`, { is_active: isActive });
  const disabled = await set(first.key_id, false);
  expect(disabled.body.data).toEqual({ message: expect.any(String), is_active: false });
  expect((await api.send({ ...member, key: first.api_key }, 'GET', '/v1/users/me')).status).toBe(401);
  expect((await create({ name: 'e' })).status).toBe(201);
  const refused = await set(first.key_id, true);
  expect([refused.status, refused.body.code]).toEqual([400, 'api_key_limit_reached']);
  await api.send(member, 'DELETE', `/v1/api-keys/${keys[1].key_id}`);
  expect((await set(first.key_id, true)).body.data.is_active).toBe(true);
  expect((await set(first.key_id, true)).status).toBe(200);
  expect((await api.send({ ...member, key: first.api_key }, 'GET', '/v1/users/me')).status).toBe(200);
});

test.each([[{}], [{ is_active: null }], [{ is_active: 'false' }], [{ is_active: 0 }]])(
  'status with %j is 400',
  async (body) => {
    const reply = await api.send(member, 'PUT', `/v1/api-keys/${member.keyId}/status`, body);
    expect([reply.status, reply.body.code]).toEqual([400, 'validation_failed']);
  },
);

test('a deleted key is gone and stops at once', async () => {
  const { key_id: id, api_key: key } = (await create({ name: 'short' })).body.data;
  const reply = await api.send(member, 'DELETE', `/v1/api-keys/${id}`);
  expect([reply.status, reply.body.data, typeof reply.body.message]).toEqual([200, undefined, 'string']);
  expect((await api.send({ ...member, key }, 'GET', '/v1/users/me')).status).toBe(401);
  expect((await api.send(member, 'GET', `/v1/api-keys/${id}`)).status).toBe(404);
  expect((await api.send(member, 'DELETE', `/v1/api-keys/${id}`)).status).toBe(404);
});
