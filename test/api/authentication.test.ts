import { Account } from '../../db/accounts/account.entity.ts';
import { ApiKey } from '../../db/accounts/api-key.entity.ts';
import { User } from '../../db/accounts/user.entity.ts';
import { spellForE2b } from '../../domain/accounts/api-key.ts';
import { startApi, type TestApi } from './test-api.ts';

let api: TestApi;
beforeAll(async () => {
  api = await startApi();
});
afterAll(() => api.stop());

const me = (headers: Record<string, string>) => api.send(null, 'GET', '/v1/users/me', undefined, { headers });

test.each([
  ['X-API-Key', (key: string) => ({ 'x-api-key': key })],
  ['Authorization: Api-Key', (key: string) => ({ authorization: `Api-Key ${key}` })],
  ['Authorization: api-key', (key: string) => ({ authorization: `api-key  ${key}` })],
])('a key is accepted as %s, in both spellings', async (_name, headers) => {
  for (const spelling of [api.root.key, spellForE2b(api.root.key)]) {
    const reply = await me(headers(spelling));
    expect(reply.status).toBe(200);
    expect(reply.body.data.user_id).toBe(api.root.userId);
  }
});

test.each([
  ['none', {}],
  ['an empty one', { 'x-api-key': '' }],
  ['one of the wrong shape', { 'x-api-key': 'secret' }],
  ['one with a typo', { 'x-api-key': 'spk_00000000000000000000000000000000000000000000000000' }],
  ['one of the right shape that does not exist', { 'x-api-key': `spk_${'0'.repeat(43)}2kUDc0` }],
  ['the second spelling of one that does not exist', { 'x-api-key': spellForE2b(`spk_${'0'.repeat(43)}2kUDc0`) }],
  ['a bearer token that is none', { authorization: 'Bearer root' }],
  ['a wrong scheme', { authorization: 'Basic abc' }],
])('401 for a request with %s', async (_name, headers) => {
  const reply = await me(headers as unknown as Record<string, string>);
  expect([reply.status, reply.body.code]).toEqual([401, 'unauthenticated']);
  expect(reply.headers['www-authenticate']).toBe('Api-Key, Bearer');
});

test('a key that is sent as an access token is refused with the header for keys', async () => {
  const reply = await me({ authorization: `Bearer ${api.root.key}` });
  expect([reply.status, reply.body.error]).toEqual([401, expect.stringContaining('X-API-Key')]);
});

test('401 is sent before the body is checked', async () => {
  const reply = await api.send(null, 'POST', '/v1/sandboxes', undefined, {
    rawBody: 'x'.repeat(2_000_000),
    contentType: 'text/plain',
  });
  expect(reply.status).toBe(401);
});

test('a disabled key, a deleted key and a disabled user stop working with the next request', async () => {
  const member = await api.addUser(api.root);
  const em = api.orm.em.fork();
  expect((await api.send(member, 'GET', '/v1/users/me')).status).toBe(200);
  await em.nativeUpdate(ApiKey, { keyId: member.keyId }, { isActive: false });
  expect((await api.send(member, 'GET', '/v1/users/me')).status).toBe(401);
  await em.nativeUpdate(ApiKey, { keyId: member.keyId }, { isActive: true });
  await em.nativeUpdate(User, { userId: member.userId }, { status: 'disabled' });
  expect((await api.send(member, 'GET', '/v1/users/me')).status).toBe(401);
  await em.nativeUpdate(User, { userId: member.userId }, { status: 'enabled' });
  expect((await api.send(member, 'GET', '/v1/users/me')).status).toBe(200);
  await em.nativeDelete(ApiKey, { keyId: member.keyId });
  expect((await api.send(member, 'GET', '/v1/users/me')).status).toBe(401);
});

test('a key has the time of its last use', async () => {
  const member = await api.addUser(api.root);
  await api.send(member, 'GET', '/v1/users/me');
  const reply = await api.send(api.root, 'GET', `/v1/api-keys/${member.keyId}`);
  expect(Math.abs(Date.parse(reply.body.data.last_used_at) - Date.now())).toBeLessThan(60_000);
});

test('a suspended account may read, and change nothing', async () => {
  const owner = await api.addAccount();
  const made = await api.send(owner, 'POST', '/v1/sandboxes');
  const sandbox = `/v1/sandboxes/${made.body.data.sandbox_id}`;
  await api.orm.em.fork().nativeUpdate(Account, { accountId: owner.accountId }, { status: 'suspended' });
  const before = await api.counts();

  for (const url of ['/v1/users/me', '/v1/sandboxes', sandbox, '/v1/projects', '/v1/api-keys', '/v1/templates']) {
    expect((await api.send(owner, 'GET', url)).status).toBe(200);
  }
  for (const [method, url, body] of [
    ['POST', '/v1/sandboxes', {}],
    ['PUT', sandbox, { timeout: 600 }],
    ['POST', `${sandbox}/pause`, {}],
    ['POST', `${sandbox}/terminate`, undefined],
    ['DELETE', sandbox, undefined],
    ['POST', '/v1/projects', { name: 'More' }],
    ['POST', '/v1/api-keys', { name: 'More' }],
    ['DELETE', `/v1/api-keys/${owner.keyId}`, undefined],
  ] as const) {
    const reply = await api.send(owner, method, url, body);
    expect([method, url, reply.status, reply.body.code]).toEqual([method, url, 403, 'account_suspended']);
  }
  expect(await api.counts()).toEqual(before);
});
