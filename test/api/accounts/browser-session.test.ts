import { createApp } from '../../../api/app.ts';
import { Account } from '../../../db/accounts/account.entity.ts';
import { User } from '../../../db/accounts/user.entity.ts';
import { forwardedClientField, signForwardedClient } from '../../../domain/forwarded-client.ts';
import { loadSettings } from '../../../platform/config/settings.ts';
import { ContractClient, type Json, type Reply } from '../contract-client.ts';
import { type Caller, startApi, type TestApi } from '../test-api.ts';

const password = 'korrekt pferd batterie';
const session = '/v1/auth/session';
const ownPage = { 'sec-fetch-site': 'same-origin' };
let api: TestApi;

interface Person extends Caller {
  email: string;
}

beforeAll(async () => {
  api = await startApi({ env: { PLATFORM_RATE_LIMIT_PER_ADDRESS: '0' } });
});
afterAll(() => api.stop());

async function newPerson(): Promise<Person> {
  const caller = await api.addAccount();
  const passwordHash = await api.dependencies.passwords.hash(password);
  await api.orm.em.fork().nativeUpdate(User, { userId: caller.userId }, { passwordHash });
  const { email } = await api.orm.em.fork().findOneOrFail(User, { userId: caller.userId });
  return { ...caller, email };
}

const start = (email: string, headers: Record<string, string> = ownPage, client: ContractClient = api.client) =>
  client.send('POST', session, { body: { email, password }, headers });

const readCookies = (reply: Reply) => [reply.headers['set-cookie'] ?? []].flat() as string[];
const readCode = (reply: Reply) => [reply.status, reply.body?.code];

/** The cookie of a new session in the form in which a browser sends it. */
async function signIn({ email }: Person): Promise<string> {
  const [set = ''] = readCookies(await start(email));
  return set.split(';')[0]!;
}

const ask = (method: string, url: string, cookie: string, more: Record<string, string> = ownPage, body?: Json) =>
  api.client.send(method, url, { headers: { cookie, ...more }, ...(body !== undefined && { body }) });

test('a sign-in sets an HttpOnly cookie until the end of the session, and shows no token', async () => {
  const person = await newPerson();
  const reply = await start(person.email);
  expect([reply.status, Object.keys(reply.body.data)]).toEqual([200, ['expires_at']]);
  expect(reply.headers['cache-control']).toBe('no-store');
  const [cookie, ...others] = readCookies(reply);
  expect(others).toEqual([]);
  const [, expires] = /^sandbox-session=eyJ[\w.-]+; Path=\/; Expires=([^;]+); HttpOnly; SameSite=Strict$/.exec(
    cookie!,
  )!;
  const expiresAt = Date.parse(reply.body.data.expires_at);
  expect(Math.abs(Date.parse(expires!) - expiresAt)).toBeLessThanOrEqual(1000);
  expect(Math.abs(expiresAt - Date.now() - 3_600_000)).toBeLessThan(60_000);

  const { body } = await ask('GET', session, cookie!.split(';')[0]!);
  expect(body.data).toEqual({
    ...{ user_id: person.userId, account_id: person.accountId, email: person.email, display_name: 'Owner' },
    ...{ role: 'user', is_root_user: true, expires_at: reply.body.data.expires_at },
  });
});

test('by https, the cookie is of this host only and secure', async () => {
  const settings = loadSettings({
    PLATFORM_SECRET_KEY: api.settings.PLATFORM_SECRET_KEY,
    DATABASE_URL: api.settings.DATABASE_URL,
    PLATFORM_URL: 'https://platform.example.com',
  });
  const app = createApp({ ...api.dependencies, settings });
  const client = await ContractClient.of(app);
  const [cookie = ''] = readCookies(await start((await newPerson()).email, ownPage, client));
  expect(cookie).toMatch(/^__Host-sandbox-session=.*; Path=\/; Expires=[^;]+; HttpOnly; Secure; SameSite=Strict$/);
  const me = (value: string) => client.send('GET', '/v1/users/me', { headers: { cookie: value } });
  expect((await me(cookie.split(';')[0]!)).status).toBe(200);
  expect((await me(cookie.split(';')[0]!.replace('__Host-', ''))).status).toBe(401);
  await app.close();
});

test('a wrong password and a suspended account are refused and set no cookie', async () => {
  const person = await newPerson();
  const wrong = await api.client.send('POST', session, { body: { email: person.email, password: 'wrong' } });
  expect([...readCode(wrong), readCookies(wrong)]).toEqual([401, 'invalid_credentials', []]);
  await api.orm.em.fork().nativeUpdate(Account, { accountId: person.accountId }, { status: 'suspended' });
  const suspended = await start(person.email);
  expect([...readCode(suspended), readCookies(suspended)]).toEqual([403, 'account_suspended', []]);
  expect(readCode(await api.client.send('POST', session, { body: { email: 1 } }))).toEqual([400, 'validation_failed']);
});

test('a program without an origin gets the cookie, and a page of another origin does not', async () => {
  const { email } = await newPerson();
  expect((await start(email, {})).status).toBe(200);

  expect((await start(email, { origin: 'http://localhost', host: 'localhost' })).status).toBe(200);
  for (const headers of [{ 'sec-fetch-site': 'same-site' }, { origin: 'http://3000-sbx-a.sandbox.localhost' }]) {
    const refused = await start(email, headers as unknown as Record<string, string>);
    expect([...readCode(refused), readCookies(refused)]).toEqual([403, 'cross_site_request', []]);
  }
});

describe('a request with the cookie', () => {
  let cookie: string;
  let person: Person;
  const host = 'platform.test:7080';
  const reading = ['GET', '/v1/users/me'] as const;
  const changing = ['PUT', '/v1/users/me'] as const;

  beforeAll(async () => {
    person = await newPerson();
    cookie = await signIn(person);
  });

  test.each<[string, readonly [string, string], Record<string, string>, number]>([
    ['reads for a page of the same origin', reading, ownPage, 200],
    ['changes for a page of the same origin', changing, ownPage, 200],
    ['reads for a typed address', reading, { 'sec-fetch-site': 'none' }, 200],
    ['does not change for a typed address', changing, { 'sec-fetch-site': 'none' }, 403],
    ['does not read for a page of a sandbox', reading, { 'sec-fetch-site': 'same-site' }, 403],
    ['does not change for a page of a sandbox', changing, { 'sec-fetch-site': 'same-site' }, 403],
    ['does not read for a page of another site', reading, { 'sec-fetch-site': 'cross-site' }, 403],
    ['does not change if the field is unknown', changing, { 'sec-fetch-site': 'odd' }, 403],
    [
      'does not change if the origin differs, whatever the site',
      changing,
      { 'sec-fetch-site': 'cross-site', origin: `http://${host}` },
      403,
    ],
    ['reads by plain http without an origin', reading, {}, 200],
    ['changes by plain http with the origin of the host', changing, { origin: `http://${host}` }, 200],
    ['does not change without an origin', changing, {}, 403],
    ['does not change for the origin of another port', changing, { origin: 'http://platform.test:7081' }, 403],
    ['does not change for the origin of another host', changing, { origin: 'http://evil.test' }, 403],
    ['does not change for an opaque origin', changing, { origin: 'null' }, 403],
    ['does not read for the origin of another host', reading, { origin: 'http://evil.test' }, 403],
  ])('%s', async (_what, [method, url], headers, status) => {
    const body = method === 'PUT' ? { description: 'changed' } : undefined;
    const reply = await ask(method, url, cookie, { host, ...headers }, body);
    expect(readCode(reply)).toEqual([status, status === 403 ? 'cross_site_request' : undefined]);
  });

  test('counts only without another credential', async () => {
    const other = await newPerson();
    const asOther = await ask('GET', '/v1/users/me', cookie, { ...ownPage, 'x-api-key': other.key });
    expect(asOther.body.data.user_id).toBe(other.userId);
    for (const headers of [{ 'x-api-key': 'wrong' }, { authorization: 'Bearer wrong' }]) {
      const refused = await ask('GET', '/v1/users/me', cookie, headers as unknown as Record<string, string>);
      expect(readCode(refused)).toEqual([401, 'unauthenticated']);
    }
    const foreign = await ask('GET', '/v1/users/me', cookie, {
      'sec-fetch-site': 'cross-site',
      'x-api-key': other.key,
    });
    expect(foreign.status).toBe(200);
  });

  test('does not count twice, changed, or under another name', async () => {
    const twice = `sandbox-session=eyJ.a.b; ${cookie}`;
    for (const sent of [twice, `${cookie}x`, 'sandbox-session=', cookie.replace('sandbox', 'x-sandbox')]) {
      expect(readCode(await ask('GET', '/v1/users/me', sent))).toEqual([401, 'unauthenticated']);
    }
    expect((await ask('GET', '/v1/users/me', `theme=dark; ${cookie}; other=1`)).status).toBe(200);
  });

  test('does not count in the protocol of E2B, and not through the gateway', async () => {
    const e2b = await api.app.inject({ url: '/e2b/sandboxes', headers: { cookie, ...ownPage } });
    expect(e2b.statusCode).toBe(401);
    const [key] = api.dependencies.clientAddressKeys();
    const forwarded = { [forwardedClientField]: signForwardedClient('192.0.2.7', key!) };
    expect(readCode(await ask('GET', '/v1/users/me', cookie, { ...ownPage, ...forwarded }))).toEqual([
      ...[401, 'unauthenticated'],
    ]);
    const forged = { [forwardedClientField]: '192.0.2.7 forged' };
    expect((await ask('GET', '/v1/users/me', cookie, { ...ownPage, ...forged })).status).toBe(200);
  });

  test('opens the stream of a command, for which a token in the address takes precedence', async () => {
    const stream = '/v1/sandboxes/sbx-none/exec/stream';
    expect(readCode(await ask('GET', stream, cookie))).toEqual([404, 'not_found']);
    expect(readCode(await ask('GET', `${stream}?token=x`, cookie))).toEqual([401, 'unauthenticated']);
    expect(readCode(await ask('GET', stream, cookie, { 'sec-fetch-site': 'cross-site' }))).toEqual([
      ...[403, 'cross_site_request'],
    ]);
  });

  test('is in the audit log with the session, like the sign-in', async () => {
    const { body } = await ask('GET', '/v1/audit-events', cookie);
    const changes = body.data.events.map((each: Json) => [each.action, each.actor_user_id, each.actor_session_id]);
    const sessionId = expect.stringMatching(/^ses-/);
    expect(changes).toContainEqual(['updateProfile', person.userId, sessionId]);
    expect(changes).toContainEqual(['signIn', person.userId, sessionId]);
  });
});

test('a sign-out ends the session everywhere and removes the cookie, also that of an ended session', async () => {
  const person = await newPerson();
  const cookie = await signIn(person);
  const done = await ask('DELETE', session, cookie);
  expect(done.status).toBe(200);
  const removed =
    'sandbox-session=; Max-Age=0; Path=/; Expires=Thu, 01 Jan 1970 00:00:00 GMT; HttpOnly; SameSite=Strict';
  expect(readCookies(done)).toEqual([removed]);
  const token = cookie.split('=')[1]!;
  expect((await api.client.send('GET', session, { headers: { authorization: `Bearer ${token}` } })).status).toBe(401);
  const again = await ask('DELETE', session, cookie);
  expect([...readCode(again), readCookies(again)]).toEqual([401, 'unauthenticated', [removed]]);
  const foreign = await ask('DELETE', session, await signIn(person), { 'sec-fetch-site': 'same-site' });
  expect([...readCode(foreign), readCookies(foreign)]).toEqual([403, 'cross_site_request', []]);
});

test('an API key has a session without an end, which cannot be ended', async () => {
  const { body } = await api.send(api.root, 'GET', session);
  expect(body.data).toMatchObject({ user_id: api.root.userId, role: 'admin', expires_at: null });
  expect(readCode(await api.send(api.root, 'DELETE', session))).toEqual([400, 'no_session']);
  expect(readCode(await api.send(null, 'GET', session))).toEqual([401, 'unauthenticated']);
});

test('an expired session and a new password end the cookie', async () => {
  const person = await newPerson();
  const [first, second] = [await signIn(person), await signIn(person)];
  const em = api.orm.em.fork();
  await em.execute("update sessions set expires_at = now() - interval '1 ms' where user_id = ?", [person.userId]);
  expect((await ask('GET', '/v1/users/me', first)).status).toBe(401);
  await em.execute("update sessions set expires_at = now() + interval '1 hour' where user_id = ?", [person.userId]);
  const change = { current_password: password, new_password: 'ein anderes pferd' };
  expect((await ask('POST', '/v1/user-management/change-password', first, ownPage, change)).status).toBe(200);
  for (const cookie of [first, second]) expect((await ask('GET', '/v1/users/me', cookie)).status).toBe(401);
});
