import { randomBytes } from 'node:crypto';
import fs from 'node:fs';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { jest } from '@jest/globals';
import type { FastifyInstance } from 'fastify';
import { createApp } from '../../../api/app.ts';
import type { IdentityProvider } from '../../../api/routes/accounts/oidc/identity-provider.ts';
import { IdentityProviders } from '../../../api/routes/accounts/oidc/identity-providers.ts';
import { PendingSignIns } from '../../../api/routes/accounts/oidc/pending-sign-ins.ts';
import { Account } from '../../../db/accounts/account.entity.ts';
import { addAccountLink } from '../../../db/accounts/account-links.ts';
import { admitAddress } from '../../../db/accounts/sign-ins.ts';
import { User } from '../../../db/accounts/user.entity.ts';
import { purgeSignIns } from '../../../db/upkeep/retention.ts';
import { addressThrottle } from '../../../domain/accounts/sign-in-throttle.ts';
import type { UserId } from '../../../domain/ids.ts';
import { deriveSecrets } from '../../../platform/config/secrets.ts';
import { loadSettings, type Settings } from '../../../platform/config/settings.ts';
import { IdentityProviderServer, type PersonThere } from '../../support/identity-provider.ts';
import { ContractClient, type Json, type Reply } from '../contract-client.ts';
import { type Caller, startApi, type TestApi } from '../test-api.ts';

const origin = 'http://platform.test';
const clientSecret = `secret-of-the-client-${randomBytes(8).toString('hex')}`;
const oidc = '/v1/auth/oidc';
let api: TestApi;
/** Root of the account that `corp` and `open` are for. */
let root: Caller;
let there: IdentityProviderServer;
let settings: Settings;
let app: FastifyInstance;
let client: ContractClient;
/** Another process of the API on the same database. */
let replica: FastifyInstance;
let dir: string;
const apps: FastifyInstance[] = [];

beforeAll(async () => {
  api = await startApi({ env: { PLATFORM_RATE_LIMIT_PER_ADDRESS: '0', PLATFORM_RATE_LIMIT_PER_KEY: '0' } });
  root = await api.addAccount();
  dir = fs.mkdtempSync(path.join(os.tmpdir(), 'sandbox-platform-oidc-'));
  fs.writeFileSync(path.join(dir, 'secret'), `${clientSecret}\n`);
  const ids = ['corp', 'open', 'elsewhere'];
  there = await IdentityProviderServer.start({
    clients: ids.map((id) => ({ clientId: id, clientSecret, redirectUri: `${origin}${oidc}/${id}/callback` })),
  });
  settings = settingsWith([
    issuer({ id: 'corp' }),
    issuer({ id: 'open', domains: ['open.example'], create_users: true }),
    issuer({ id: 'elsewhere', account_id: (await api.addAccount()).accountId, create_users: true }),
  ]);
  [app, replica] = [await appWith(settings), await appWith(settings)];
  client = await ContractClient.of(app);
});
afterAll(async () => {
  await Promise.all(apps.map((each) => each.close()));
  await there?.stop();
  await api?.stop();
  fs.rmSync(dir, { recursive: true, force: true });
});

function issuer(fields: Record<string, unknown>): Json {
  return {
    issuer: there.issuer,
    client_id: fields.id,
    client_secret_file: path.join(dir, 'secret'),
    label: 'Example Corp',
    account_id: root.accountId,
    domains: ['corp.example'],
    ...fields,
  };
}

function settingsWith(issuers: Json[], more: Record<string, string> = {}): Settings {
  return loadSettings({
    PLATFORM_SECRET_KEY: api.settings.PLATFORM_SECRET_KEY,
    DATABASE_URL: api.settings.DATABASE_URL,
    PLATFORM_RATE_LIMIT_PER_ADDRESS: '0',
    PLATFORM_URL: origin,
    PLATFORM_OIDC_ISSUERS: JSON.stringify(issuers),
    ...more,
  });
}

async function appWith(given: Settings): Promise<FastifyInstance> {
  const identityProviders = new IdentityProviders(given, { logger: api.dependencies.logger });
  const made = createApp({ ...api.dependencies, settings: given, identityProviders });
  await made.ready();
  apps.push(made);
  return made;
}

const tail = () => randomBytes(4).toString('hex');
const em = () => api.orm.em.fork();
const readCode = (reply: Reply) => [reply.status, reply.body?.code];

/** A person whom the provider knows. */
function person(fields: Partial<PersonThere> = {}): PersonThere {
  const name = `ada-${tail()}`;
  return { sub: `sub-${name}`, email: `${name}@corp.example`, email_verified: true, name: 'Ada Lovelace', ...fields };
}

/** Adds a user of the account without a password and an identity. */
async function invite(email: string, by: Caller = root): Promise<UserId> {
  const { userId } = await api.addUser(by);
  await em().nativeUpdate(User, { userId }, { email });
  return userId;
}

interface Begun {
  id: string;
  /** The address to which the platform redirects the browser. */
  url: URL;
  /** The cookie that the browser keeps. */
  cookie: string;
}

async function begin(id = 'corp', cookie = ''): Promise<Begun> {
  const reply = await client.send('GET', `${oidc}/${id}/start`, { headers: { cookie } });
  expect(reply.status).toBe(302);
  const [set = ''] = [reply.headers['set-cookie'] ?? ''].flat() as string[];
  return { id, url: new URL(String(reply.headers.location)), cookie: set.split(';')[0]! };
}

const finish = ({ id, cookie }: Pick<Begun, 'id' | 'cookie'>, back: URL, remoteAddress = '192.0.2.1') =>
  client.send('GET', `${oidc}/${id}/callback${back.search}`, { headers: { cookie }, remoteAddress });

/** Does all steps of a sign-in. */
async function signIn(who: PersonThere, id = 'corp', remoteAddress?: string): Promise<Reply> {
  const begun = await begin(id);
  return finish(begun, await there.signIn(begun.url.href, who), remoteAddress);
}

async function readProfile(reply: Reply): Promise<Json> {
  expect(reply.status).toBe(200);
  const headers = { authorization: `Bearer ${reply.body.data.access_token}` };
  return (await client.send('GET', '/v1/users/me', { headers })).body.data;
}

async function expectRefused(who: PersonThere, refusal: [number, string], id = 'corp'): Promise<void> {
  const before = await em().count(User);
  expect(readCode(await signIn(who, id))).toEqual(refusal);
  expect(await em().count(User, { oauthProviderId: who.sub })).toBe(0);
  expect(await em().count(User)).toBe(before);
}

describe('a first sign-in', () => {
  test('gives the identity to the user whom a root user invited', async () => {
    const ada = person();
    const userId = await invite(ada.email!.toUpperCase());
    const reply = await signIn(ada);
    expect(reply.headers['cache-control']).toBe('no-store');
    expect(await readProfile(reply)).toMatchObject({
      user_id: userId,
      email_verified: true,
      oauth_provider: there.issuer,
      oauth_provider_id: ada.sub,
      has_local_password: false,
      is_root_user: false,
      account_id: root.accountId,
    });
  });

  test('makes a new user with a default project if the issuer may', async () => {
    const picture = 'https://pictures.example/ada.png';
    const ada = person({ preferred_username: `Ada.${tail()}`, picture });
    ada.email = ada.email!.replace('corp', 'open');
    const profile = await readProfile(await signIn(ada, 'open'));
    expect(profile).toMatchObject({
      account_id: root.accountId,
      email: ada.email,
      username: ada.preferred_username,
      avatar_url: picture,
      display_name: 'Ada Lovelace',
      role: 'user',
      is_root_user: false,
      email_verified: true,
      oauth_provider: there.issuer,
      oauth_provider_id: ada.sub,
      has_local_password: false,
    });
    const token = (await signIn(ada, 'open')).body.data.access_token;
    const made = await client.send('POST', '/v1/sandboxes', {
      headers: { authorization: `Bearer ${token}` },
      body: {},
    });
    expect(made.status).toBe(201);
  });

  test('chooses another user name if it is used or invalid', async () => {
    const names = [`grace-${tail()}`, 'Ünicode\r\nBcc: x', '', '-'.repeat(100)];
    const seen = [];
    for (const username of [names[0]!, ...names]) {
      const who = person({ preferred_username: username, email: `x${tail()}@open.example`, name: 'a\u0000b' });
      const profile = await readProfile(await signIn(who, 'open'));
      expect(profile.username).toMatch(/^[A-Za-z0-9][A-Za-z0-9._@+-]{0,63}$/);
      expect(profile.display_name).toBe(profile.username);
      seen.push(profile.username);
    }
    expect(new Set(seen).size).toBe(5);
    expect(seen[0]).toBe(names[0]);
  });

  test('of one person in ten concurrent requests makes one user', async () => {
    const ada = person({ email: `once-${tail()}@open.example` });
    const replies = await Promise.all(Array.from({ length: 10 }, () => signIn(ada, 'open')));
    expect(replies.map(({ status }) => status)).toEqual(Array(10).fill(200));
    expect(await em().count(User, { oauthProviderId: ada.sub })).toBe(1);
  });

  test('reads the e-mail from the ID token if the provider puts it there', async () => {
    const provider = await IdentityProviderServer.start({
      clients: [{ clientId: 'corp', clientSecret, redirectUri: `${origin}${oidc}/corp/callback` }],
      idTokenHasClaims: true,
    });
    try {
      const ada = person();
      await invite(ada.email!);
      const own = await ContractClient.of(
        await appWith(settingsWith([issuer({ id: 'corp', issuer: provider.issuer })])),
      );
      const start = await own.send('GET', `${oidc}/corp/start`);
      const back = await provider.signIn(String(start.headers.location), ada);
      const cookie = String(start.headers['set-cookie']).split(';')[0]!;
      const reply = await own.send('GET', `${oidc}/corp/callback${back.search}`, { headers: { cookie } });
      expect((await readProfile(reply)).oauth_provider).toBe(provider.issuer);
      expect(provider.asked).not.toContain('/me');
    } finally {
      await provider.stop();
    }
  });

  test('without a verified e-mail is refused', async () => {
    for (const verified of [false, undefined, 'true' as unknown as boolean]) {
      const ada = person({ email_verified: verified as boolean });
      await invite(ada.email!);
      await expectRefused(ada, [403, 'email_not_verified']);
    }
    await expectRefused({ sub: `sub-${tail()}`, email_verified: true }, [403, 'email_not_verified']);
  });

  test('with an e-mail of a domain that is not the issuer’s is refused', async () => {
    for (const email of [
      'a@other.example',
      'a@sub.corp.example',
      'a@corp.example.evil.example',
      'a@evil@corp.example',
    ]) {
      await expectRefused(person({ email }), [403, 'email_domain_not_allowed']);
    }
    await expectRefused(person({ email: `a${tail()}@cоrp.example` }), [403, 'email_domain_not_allowed']);
  });

  test('of a person without an invitation is refused if the issuer makes no users', async () => {
    await expectRefused(person(), [403, 'not_invited']);
  });

  test('does not use an invitation to another account', async () => {
    const ada = person();
    const userId = await invite(ada.email!, api.root);
    await expectRefused(ada, [403, 'not_invited']);
    expect(await em().findOneOrFail(User, { userId })).toMatchObject({ email: ada.email, oauthProvider: null });
  });

  test('takes an address that another account never verified, and no verified one', async () => {
    const ada = person();
    const userId = await invite(ada.email!, api.root);
    await em().nativeUpdate(User, { userId }, { emailVerified: true });
    await expectRefused(ada, [409, 'email_taken'], 'elsewhere');
    await em().nativeUpdate(User, { userId }, { emailVerified: false, passwordHash: 'a hash' });
    const profile = await readProfile(await signIn(ada, 'elsewhere'));
    expect([profile.email, profile.email_verified]).toEqual([ada.email, true]);
    expect(profile.user_id).not.toBe(userId);
    const other = await em().findOneOrFail(User, { userId });
    expect(other).toMatchObject({ email: `${userId}@unverified.invalid`, passwordHash: 'a hash', oauthProvider: null });

    const audit = await client.send('GET', `/v1/audit-events?object_id=${userId}`, { key: api.root.key });
    const [event] = audit.body.data.events;
    expect(event).toMatchObject({ before: { email: ada.email }, after: { email: other.email } });
    expect(JSON.stringify(event)).not.toMatch(new RegExp(`${profile.user_id}|192\\.0\\.2`));
  });

  test('finds its domain free, because no other account can make users or changes of address there', async () => {
    const create = (email: string, by: Caller) =>
      client.send('POST', '/v1/user-management/users', {
        key: by.key,
        body: { email, username: `u-${tail()}`, role: 'user' },
      });
    const stranger = await api.addAccount();
    for (const email of [`a-${tail()}@corp.example`, `a-${tail()}@CORP.example`]) {
      expect(readCode(await create(email, stranger))).toEqual([403, 'email_domain_not_allowed']);
    }
    expect((await create(`a-${tail()}@corp.example`, root)).status).toBe(201);
    expect((await create(`a-${tail()}@sub.corp.example`, stranger)).status).toBe(201);
    const { email } = await em().findOneOrFail(Account, { accountId: stranger.accountId });
    const changed = await client.send('POST', '/v1/user-management/account/email-change-request', {
      key: stranger.key,
      body: { current_email: email, new_email: `b-${tail()}@corp.example` },
    });
    expect(readCode(changed)).toEqual([403, 'email_domain_not_allowed']);
  });

  test('never attaches to a user who has a password, nor to one with another identity', async () => {
    for (const taken of [
      { passwordHash: 'a hash' },
      { oauthProvider: 'https://other.example', oauthProviderId: tail() },
    ]) {
      const ada = person();
      const userId = await invite(ada.email!);
      await em().nativeUpdate(User, { userId }, taken);
      await expectRefused(ada, [409, 'email_taken']);
      expect(await em().findOneOrFail(User, { userId })).toMatchObject(taken);
    }
  });

  test('of a user who is disabled, or in a suspended account, is refused', async () => {
    const ada = person();
    const userId = await invite(ada.email!);
    await em().nativeUpdate(User, { userId }, { status: 'disabled' });
    await expectRefused(ada, [403, 'user_disabled']);
    await em().nativeUpdate(User, { userId }, { status: 'enabled' });
    await em().nativeUpdate(Account, { accountId: root.accountId }, { status: 'suspended' });
    try {
      await expectRefused(ada, [403, 'account_suspended']);
      await expectRefused(person({ email: `new-${tail()}@open.example` }), [403, 'account_suspended'], 'open');
    } finally {
      await em().nativeUpdate(Account, { accountId: root.accountId }, { status: 'active' });
    }
    expect((await signIn(ada)).status).toBe(200);
  });

  test('and a concurrent use of the invitation’s link: the user has a password or an identity, never both', async () => {
    for (let round = 0; round < 8; round++) {
      const ada = person();
      const userId = await invite(ada.email!);
      const token = `link-${userId}`;
      const expiresAt = new Date(Date.now() + 600_000);
      await addAccountLink(api.orm.em, { token, purpose: 'password-reset', userId, provesEmail: true, expiresAt });
      const begun = await begin();
      const back = await there.signIn(begun.url.href, ada);
      const [byIdentity, byLink] = await Promise.all([
        finish(begun, back),
        api.send(null, 'POST', '/v1/auth/reset-password', { token, new_password: 'korrekt pferd batterie' }),
      ]);
      const user = await em().findOneOrFail(User, { userId });
      expect([Boolean(user.passwordHash), Boolean(user.oauthProvider)]).toEqual([
        byLink.status === 200,
        byIdentity.status === 200,
      ]);
      expect([byIdentity.status, byLink.status].filter((status) => status === 200)).toHaveLength(1);
    }
  });
});

describe('a later sign-in', () => {
  test('has the same user, even if the e-mail has changed', async () => {
    const ada = person();
    const userId = await invite(ada.email!);
    expect((await readProfile(await signIn(ada))).user_id).toBe(userId);
    for (const changed of [{ email: `other-${tail()}@else.example` }, { email_verified: false }]) {
      const profile = await readProfile(await signIn({ ...ada, ...changed }));
      expect([profile.user_id, profile.email]).toEqual([userId, ada.email]);
    }
  });

  test('of another person with this e-mail is refused', async () => {
    const ada = person();
    await invite(ada.email!);
    expect((await signIn(ada)).status).toBe(200);
    await expectRefused({ ...ada, sub: `sub-${tail()}` }, [409, 'email_taken']);
  });

  test('is refused once the user is disabled or the account suspended, and through the issuer of another account', async () => {
    const ada = person();
    const userId = await invite(ada.email!);
    expect((await signIn(ada)).status).toBe(200);
    expect(readCode(await signIn(ada, 'elsewhere'))).toEqual([403, 'not_invited']);
    await em().nativeUpdate(User, { userId }, { status: 'disabled' });
    expect(readCode(await signIn(ada))).toEqual([403, 'user_disabled']);
    await em().nativeUpdate(User, { userId }, { status: 'enabled' });
    await em().nativeUpdate(Account, { accountId: root.accountId }, { status: 'suspended' });
    try {
      expect(readCode(await signIn(ada))).toEqual([403, 'account_suspended']);
    } finally {
      await em().nativeUpdate(Account, { accountId: root.accountId }, { status: 'active' });
    }
  });

  test('its token ends at sign-out', async () => {
    const ada = person();
    await invite(ada.email!);
    const headers = { authorization: `Bearer ${(await signIn(ada)).body.data.access_token}` };
    expect((await client.send('POST', '/v1/auth/sign-out', { headers })).status).toBe(200);
    expect((await client.send('GET', '/v1/users/me', { headers })).status).toBe(401);
  });
});

describe('the answer of a provider proves nothing', () => {
  async function begunBy(ada: PersonThere): Promise<Begun & { back: URL }> {
    await invite(ada.email!);
    const begun = await begin();
    return { ...begun, back: await there.signIn(begun.url.href, ada) };
  }

  test('with another nonce', async () => {
    const ada = person();
    await invite(ada.email!);
    const begun = await begin();
    begun.url.searchParams.set('nonce', 'another');
    const back = await there.signIn(begun.url.href, ada);
    expect(readCode(await finish(begun, back))).toEqual([401, 'identity_not_proven']);
  });

  test('with a code that was used', async () => {
    const first = await begunBy(person());
    expect((await finish(first, first.back)).status).toBe(200);
    const second = await begin();
    first.back.searchParams.set('state', second.url.searchParams.get('state')!);
    expect(readCode(await finish(second, first.back))).toEqual([401, 'identity_not_proven']);
  });

  test('with a code of another person: it belongs to the browser that began', async () => {
    const victim = await begunBy(person());
    const attacker = await begin();
    victim.back.searchParams.set('state', attacker.url.searchParams.get('state')!);
    expect(readCode(await finish(attacker, victim.back))).toEqual([401, 'identity_not_proven']);
  });

  test.each([
    ['no code', 'code', ''],
    ['a code that never was', 'code', 'guess'],
    ['the name of another issuer', 'iss', 'https://other.example'],
  ])('with %s', async (_what, field, value) => {
    const begun = await begunBy(person());
    if (value) begun.back.searchParams.set(field, value);
    else begun.back.searchParams.delete(field);
    expect(readCode(await finish(begun, begun.back))).toEqual([401, 'identity_not_proven']);
  });

  test('without the code’s PKCE verifier', async () => {
    const begun = await begunBy(person());
    expect(begun.url.searchParams.get('code_challenge_method')).toBe('S256');
    const body = new URLSearchParams({
      grant_type: 'authorization_code',
      code: begun.back.searchParams.get('code')!,
      redirect_uri: `${origin}${oidc}/corp/callback`,
    });
    const authorization = `Basic ${Buffer.from(`corp:${clientSecret}`).toString('base64')}`;
    const stolen = await fetch(`${there.issuer}/token`, { method: 'POST', body, headers: { authorization } });
    expect([stolen.status, await stolen.json()]).toEqual([400, expect.objectContaining({ error: 'invalid_grant' })]);
    // Another verifier of the platform does not match either.
    const other = await begunBy(person());
    const states = new PendingSignIns(deriveSecrets(settings).pendingSignInKeys, false);
    let forged = '';
    const reply = { header: (_name: string, value: string) => (forged = value.split(';')[0]!) };
    const { searchParams } = other.url;
    states.keep({ headers: {} } as never, reply as never, 'corp', {
      returnTo: '/',
      checks: {
        state: searchParams.get('state')!,
        nonce: searchParams.get('nonce')!,
        codeVerifier: 'x'.repeat(43),
      },
    });
    expect(readCode(await finish({ id: 'corp', cookie: forged }, other.back))).toEqual([401, 'identity_not_proven']);
  });

  test('with an ID token that another key signed', async () => {
    const keys = await IdentityProviderServer.otherKeys();
    const asked = there.asked.length;
    there.instead = (url, reply) => {
      if (url === '/jwks') reply.writeHead(200, { 'content-type': 'application/json' }).end(keys);
      return url === '/jwks';
    };
    try {
      const ada = person();
      await invite(ada.email!);
      // A process without the real keys in its cache.
      const fresh = await ContractClient.of(await appWith(settings));
      const start = await fresh.send('GET', `${oidc}/corp/start`);
      const back = await there.signIn(String(start.headers.location), ada);
      const cookie = String(start.headers['set-cookie']).split(';')[0]!;
      const reply = await fresh.send('GET', `${oidc}/corp/callback${back.search}`, { headers: { cookie } });
      expect(readCode(reply)).toEqual([401, 'identity_not_proven']);
      expect(there.asked.slice(asked)).toContain('/jwks');
    } finally {
      there.instead = null;
    }
  });

  test('when the person declined', async () => {
    const begun = await begin();
    const state = begun.url.searchParams.get('state')!;
    const back = new URL(`${origin}/?error=access_denied&error_description=no&state=${state}`);
    back.searchParams.set('iss', there.issuer);
    expect(readCode(await finish(begun, back))).toEqual([403, 'sign_in_declined']);
  });
});

describe('a sign-in is finished once, where it was begun:', () => {
  test('its cookie is only for these routes, for ten minutes, hidden from scripts, and not sent with other sites’ requests', async () => {
    const reply = await client.send('GET', `${oidc}/corp/start`);
    const set = String(reply.headers['set-cookie']);
    expect(set).toMatch(/^oidc-sign-in-[\w-]{43}=[^;]+; Max-Age=600; Path=\/v1\/auth\/oidc; HttpOnly; SameSite=Lax$/);
    expect(reply.headers['cache-control']).toBe('no-store');
    const { searchParams } = new URL(String(reply.headers.location));
    for (const secret of ['state', 'nonce', 'code_challenge']) {
      expect(searchParams.get(secret)!.length).toBeGreaterThanOrEqual(43);
    }
    const secure = new PendingSignIns(() => [randomBytes(32)], true);
    const headers: string[] = [];
    secure.keep({ headers: {} } as never, { header: (_: string, value: string) => headers.push(value) } as never, 'a', {
      returnTo: '/',
      checks: { state: 's', nonce: 'n', codeVerifier: 'v' },
    });
    expect(headers[0]).toContain('; Secure');
  });

  test('one of ten concurrent attempts with one answer, on two replicas, succeeds', async () => {
    const ada = person();
    await invite(ada.email!);
    const begun = await begin();
    const back = await there.signIn(begun.url.href, ada);
    const replies = await Promise.all(
      Array.from({ length: 10 }, (_, index) =>
        (index % 2 ? app : replica).inject({
          url: `${oidc}/corp/callback${back.search}`,
          headers: { cookie: begun.cookie },
        }),
      ),
    );
    expect(replies.map(({ statusCode }) => statusCode).sort()).toEqual([200, ...Array(9).fill(400)]);
    const again = await finish(begun, back);
    expect(readCode(again)).toEqual([400, 'sign_in_not_pending']);
    expect(String(again.headers['set-cookie'])).toContain('Max-Age=0');
  });

  const strangers: [string, (begun: Begun, other: Begun) => Partial<Begun> & { state?: string }][] = [
    ['a browser without the cookie', () => ({ cookie: '' })],
    ['a browser that began another', (_begun, { cookie }) => ({ cookie })],
    [
      'the cookie of another under this name',
      ({ cookie }, other) => ({ cookie: `${cookie.split('=')[0]}=${other.cookie.split('=').slice(1).join('=')}` }),
    ],
    ['a cookie that the platform did not seal', ({ cookie }) => ({ cookie: `${cookie.slice(0, -8)}AAAAAAAA` })],
    ['a cookie of nothing', ({ cookie }) => ({ cookie: `${cookie.split('=')[0]}=` })],
    ['the callback of another issuer', () => ({ id: 'elsewhere' })],
    ['no state', () => ({ state: '' })],
    ['another state', () => ({ state: 'A'.repeat(43) })],
    ['a state that is a property of objects', () => ({ state: '__proto__' })],
  ];
  test.each(strangers)('%s is refused', async (_what, change) => {
    const ada = person();
    await invite(ada.email!);
    const [begun, other] = [await begin(), await begin()];
    const back = await there.signIn(begun.url.href, ada);
    const { state, ...changed } = change(begun, other);
    if (state !== undefined) back.searchParams.set('state', state);
    const asked = there.asked.length;
    expect(readCode(await finish({ ...begun, ...changed }, back))).toEqual([400, 'sign_in_not_pending']);
    expect(there.asked.length).toBe(asked);
  });

  test('an old cookie is refused', async () => {
    const begun = await begin();
    const now = Date.now();
    const clock = jest.spyOn(Date, 'now').mockReturnValue(now + 601_000);
    try {
      const back = new URL(`${origin}/?code=x&state=${begun.url.searchParams.get('state')}`);
      expect(readCode(await finish(begun, back))).toEqual([400, 'sign_in_not_pending']);
    } finally {
      clock.mockRestore();
    }
  });

  test('a browser keeps five at most', async () => {
    const kept = new Map<string, string>();
    for (let i = 0; i < 12; i++) {
      const cookie = [...kept].map(([name, value]) => `${name}=${value}`).join('; ');
      const reply = await client.send('GET', `${oidc}/corp/start`, { headers: { cookie } });
      for (const set of [reply.headers['set-cookie'] ?? []].flat() as string[]) {
        const [, name, value] = /^([^=]+)=([^;]*)/.exec(set)!;
        if (set.includes('Max-Age=0')) kept.delete(name!);
        else kept.set(name!, value!);
      }
      expect(kept.size).toBeLessThanOrEqual(5);
    }
    const strange = Array.from({ length: 9 }, (_, index) => `oidc-sign-in-\u00e9${index}(=x`).join('; ');
    expect((await client.send('GET', `${oidc}/corp/start`, { headers: { cookie: strange } })).status).toBe(302);
  });

  test('the marks of finished sign-ins are removed after their time', async () => {
    const count = async () =>
      Number(((await em().execute('select count(*) from used_sign_in_states')) as Json)[0].count);
    expect(await count()).toBeGreaterThan(0);
    await em().execute("update used_sign_in_states set expires_at = now() - interval '1 second'");
    await purgeSignIns(api.orm.em);
    expect(await count()).toBe(0);
  });
});

describe('a faulty provider', () => {
  function providerAt(url: string, timeoutMs: number): IdentityProvider {
    const { logger } = api.dependencies;
    return new IdentityProviders(settingsWith([issuer({ id: 'corp', issuer: url })]), { logger, timeoutMs }).get(
      'corp',
    );
  }

  async function withServer(answer: http.RequestListener, then: (url: string) => Promise<void>): Promise<void> {
    const server = http.createServer(answer);
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    try {
      await then(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
    } finally {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    }
  }

  const endless: http.RequestListener = (_request, reply) => {
    reply.writeHead(200, { 'content-type': 'application/json' });
    const write = () => {
      while (!reply.destroyed && reply.write(' '.repeat(65_536)));
    };
    reply.on('drain', write);
    write();
  };
  const answers: [string, http.RequestListener][] = [
    ['never answers', () => {}],
    [
      'stops in the middle',
      (_request, reply) => reply.writeHead(200, { 'content-type': 'application/json' }).write('{'),
    ],
    ['answers without end', endless],
    ['fails', (_request, reply) => reply.writeHead(500).end()],
    [
      'redirects elsewhere',
      (_request, reply) => reply.writeHead(302, { location: `${there.issuer}/.well-known/openid-configuration` }).end(),
    ],
    ['is no provider', (_request, reply) => reply.end('<html>')],
    [
      'says that it is another',
      (_request, reply) =>
        reply
          .writeHead(200, { 'content-type': 'application/json' })
          .end(JSON.stringify({ issuer: 'https://other.example' })),
    ],
  ];
  test.each(answers)('that %s is given up in time', async (_what, answer) => {
    await withServer(answer, async (url) => {
      const refusal = { code: 'identity_provider_unavailable', status: 503 };
      await expect(providerAt(url, 500).begin()).rejects.toMatchObject(refusal);
    });
  });

  test('that is down: 503, and the code on the sign-in page for people; once it is back, it is asked again', async () => {
    let isDown = true;
    there.instead = (_path, reply) => {
      if (isDown) reply.destroy();
      return isDown;
    };
    try {
      const fresh = await appWith(settings);
      const page = await fresh.inject({ url: `${oidc}/corp/start`, headers: { accept: 'text/html,*/*' } });
      expect([page.statusCode, page.headers.location]).toEqual([
        302,
        `${origin}/console/sign-in?error=identity_provider_unavailable`,
      ]);
      isDown = false;
      expect((await fresh.inject({ url: `${oidc}/corp/start` })).statusCode).toBe(302);
      const asked = there.asked.length;
      for (let i = 0; i < 5; i++) await fresh.inject({ url: `${oidc}/corp/start` });
      expect(there.asked.length).toBe(asked);
      // Its metadata are known, but it is down when the person comes back.
      const ada = person();
      await invite(ada.email!);
      const begun = await begin();
      const back = await there.signIn(begun.url.href, ada);
      isDown = true;
      expect(readCode(await finish(begun, back))).toEqual([503, 'identity_provider_unavailable']);
    } finally {
      there.instead = null;
    }
  });

  test('many concurrent starts send it one request', async () => {
    const fresh = await appWith(settings);
    const asked = there.asked.length;
    await Promise.all(Array.from({ length: 20 }, () => fresh.inject({ url: `${oidc}/corp/start` })));
    expect(there.asked.slice(asked)).toEqual(['/.well-known/openid-configuration']);
  });

  test('is not known: 404', async () => {
    for (const name of ['nobody', '__proto__', 'constructor']) {
      for (const route of ['start', 'callback']) {
        expect(readCode(await client.send('GET', `${oidc}/${name}/${route}`))).toEqual([404, 'not_found']);
      }
    }
  });
});

describe('lock-outs', () => {
  const address = () => `203.0.113.${Math.floor(Math.random() * 250)}`;
  const countFailures = async (key: string) => {
    const rows = (await em().execute('select failures from sign_in_throttles where throttle_key = ?', [key])) as Json[];
    return rows[0]?.failures ?? 0;
  };

  test('no user can sign in from an address that must wait, unless users of the issuer have signed in from there', async () => {
    const ada = person();
    await invite(ada.email!);
    const from = `198.18.${Math.floor(Math.random() * 250)}.7`;
    const throttle = addressThrottle(from);
    await admitAddress(api.orm.em, from);
    await em().execute("update sign_in_throttles set next_at = now() + interval '1 minute' where throttle_key = ?", [
      throttle.key,
    ]);
    const refused = await signIn(ada, 'corp', from);
    expect(readCode(refused)).toEqual([429, 'too_many_sign_ins']);
    expect(Number(refused.headers['retry-after'])).toBeGreaterThan(0);
    await em().execute('update sign_in_throttles set next_at = now() where throttle_key = ?', [throttle.key]);
    expect((await signIn(ada, 'corp', from)).status).toBe(200);
    await em().execute("update sign_in_throttles set next_at = now() + interval '1 minute' where throttle_key = ?", [
      throttle.key,
    ]);
    expect((await signIn(ada, 'corp', from)).status).toBe(200);
  });

  test('failures count for their address; successes do not, and reset no other count', async () => {
    const from = address();
    const { key } = addressThrottle(from);
    await em().execute('delete from sign_in_throttles where throttle_key = ?', [key]);
    await signIn(person(), 'corp', from);
    await signIn(person(), 'corp', from);
    expect(await countFailures(key)).toBe(2);
    const ada = person();
    await invite(ada.email!);
    expect((await signIn(ada, 'corp', from)).status).toBe(200);
    expect((await signIn(ada, 'corp', from)).status).toBe(200);
    expect(await countFailures(key)).toBe(2);
  });
});

describe('a user who signs in through a provider', () => {
  test('has no password to change, to reset or to forget', async () => {
    const ada = person();
    const userId = await invite(ada.email!);
    const token = `early-${userId}`;
    const expiresAt = new Date(Date.now() + 600_000);
    await addAccountLink(api.orm.em, { token, purpose: 'password-reset', userId, provesEmail: true, expiresAt });
    const headers = { authorization: `Bearer ${(await signIn(ada)).body.data.access_token}` };
    const management = '/v1/user-management';
    const body = { current_password: '', new_password: 'korrekt pferd batterie' };
    const replies = [
      await client.send('POST', `${management}/change-password`, { headers, body }),
      await client.send('POST', `${management}/request-password-reset`, { headers }),
      await client.send('POST', `${management}/users/${userId}/reset-password`, { key: root.key }),
    ];
    expect(replies.map(readCode)).toEqual(Array(3).fill([400, 'no_local_password']));
    const forgot = await client.send('POST', '/v1/auth/forgot-password', { body: { email: ada.email } });
    expect(forgot.status).toBe(202);
    const outbox = (await em().execute("select 1 from outbox where input::text like '%' || ? || '%'", [
      userId,
    ])) as Json[];
    expect(outbox).toEqual([]);
    // The link of the invitation is not valid any more.
    const late = await client.send('POST', '/v1/auth/reset-password', {
      body: { token, new_password: 'korrekt pferd batterie' },
    });
    expect(readCode(late)).toEqual([400, 'invalid_link']);
    for (const password of ['', 'korrekt pferd batterie']) {
      const tried = await client.send('POST', '/v1/auth/sign-in', { body: { email: ada.email, password } });
      expect(readCode(tried)).toEqual([401, 'invalid_credentials']);
    }
  });

  test('is invited without a password, also without a mail server', async () => {
    const users = '/v1/user-management/users';
    const make = (email: string) =>
      client.send('POST', users, { key: root.key, body: { email, username: `u-${tail()}`, role: 'user' } });
    const ada = person();
    const made = await make(ada.email!);
    expect([made.status, made.body.data.initial_password]).toEqual([201, '']);
    const profile = await readProfile(await signIn(ada));
    expect([profile.user_id, profile.has_local_password]).toEqual([made.body.data.user.user_id, false]);
    expect((await make(`x-${tail()}@other.example`)).body.data.initial_password).not.toBe('');
  });

  test('is in the audit log: sign-in, join or creation, address and session', async () => {
    const [ada, grace] = [person(), person({ email: `g-${tail()}@open.example` })];
    const userId = await invite(ada.email!);
    await signIn(ada, 'corp', '198.51.100.9');
    await signIn(ada);
    const made = (await readProfile(await signIn(grace, 'open'))).user_id;
    const query = '?action=finishOidcSignIn&object_id=';
    const readEvents = async (id: string): Promise<Json[]> =>
      (await client.send('GET', `/v1/audit-events${query}${id}`, { key: root.key })).body.data.events;
    const identity = { oauth_provider: there.issuer, oauth_provider_id: ada.sub, email_verified: true };
    const [second, first] = await readEvents(userId);
    expect(first).toMatchObject({
      account_id: root.accountId,
      actor_user_id: userId,
      actor_key_id: null,
      actor_session_id: expect.stringMatching(/^ses-/),
      address: '198.51.100.9',
      before: { oauth_provider: null, oauth_provider_id: null, email_verified: false },
      after: identity,
    });
    expect(second).toMatchObject({ actor_user_id: userId, before: null, after: null });
    expect(await readEvents(made)).toMatchObject([{ before: null, after: { email: grace.email, role: 'user' } }]);
  });
});

describe('for people', () => {
  const browser = { accept: 'text/html,application/xhtml+xml,*/*;q=0.8' };

  async function comeBack(through: FastifyInstance, ada: PersonThere, returnTo = '') {
    const start = await through.inject({ url: `${oidc}/corp/start${returnTo}`, headers: browser });
    const back = await there.signIn(String(start.headers.location), ada);
    const cookie = String(start.headers['set-cookie']).split(';')[0]!;
    return through.inject({ url: `${oidc}/corp/callback${back.search}`, headers: { ...browser, cookie } });
  }

  test('each issuer has a button for a sign-in page', async () => {
    const { body } = await client.send('GET', '/v1/auth/providers');
    expect(body.data.providers).toEqual(
      ['corp', 'open', 'elsewhere'].map((id) => ({ id, label: 'Example Corp', start_path: `${oidc}/${id}/start` })),
    );
    expect((await api.send(null, 'GET', '/v1/auth/providers')).body.data.providers).toEqual([]);
  });

  test('the browser gets the session as a cookie and enters the console where it wanted to', async () => {
    for (const [asked, entered] of [
      ['', '/'],
      ['?return_to=', '/'],
      ['?return_to=/', '/'],
      ['?return_to=/sandboxes/sbx-1/', '/sandboxes/sbx-1/'],
      [
        `?return_to=${encodeURIComponent('/sandboxes?status=running&search=a%20b')}`,
        '/sandboxes?status=running&search=a%20b',
      ],
    ] as const) {
      const ada = person();
      await invite(ada.email!);
      const done = await comeBack(app, ada, asked);
      expect([done.statusCode, done.headers.location]).toEqual([302, `${origin}/console${entered}`]);
      expect(done.headers).toMatchObject({ 'referrer-policy': 'no-referrer', 'cache-control': 'no-store' });
      expect(done.body).toBe('');
      const cookies = [done.headers['set-cookie']].flat().map(String);
      const [session] = cookies.filter((each) => each.startsWith('sandbox-session='));
      expect(session).toMatch(/^sandbox-session=eyJ[\w.-]+; Path=\/; Expires=[^;]+; HttpOnly; SameSite=Strict$/);
      const headers = { cookie: session!.split(';')[0]!, 'sec-fetch-site': 'same-origin' };
      expect((await client.send('GET', '/v1/auth/session', { headers })).body.data.email).toBe(ada.email);
    }
  });

  test.each([
    ...['sandboxes', '//evil.example', '/\\evil.example', '/a//b', '/../v1/auth', '/%2e%2e/v1', '/a.b', '/a b', '/a#b'],
    ...['https://evil.example', '/a?b=//c', '/a?b=<c>', '/ä', `/${'a'.repeat(512)}`, '/a\r\nset-cookie: b=c'],
  ])('no other address is one to return to: %j', async (path) => {
    const url = `${oidc}/corp/start?return_to=${encodeURIComponent(path)}`;
    expect(readCode(await client.send('GET', url))).toEqual([400, 'validation_failed']);
    const shown = await app.inject({ url, headers: browser });
    expect([shown.statusCode, shown.headers.location]).toEqual([
      302,
      `${origin}/console/sign-in?error=validation_failed`,
    ]);
  });

  test('the browser learns the code of an error on the sign-in page of the console, and no text of a provider', async () => {
    const refused = await comeBack(app, person());
    expect([refused.statusCode, refused.headers.location]).toEqual([
      302,
      `${origin}/console/sign-in?error=not_invited`,
    ]);
    expect([refused.headers['set-cookie']].flat().map(String)).not.toContainEqual(expect.stringMatching(/eyJ/));
    for (const query of ['state=a&state=b', 'error=%3Cscript%3E&error_description=%3Cscript%3E&state=%3Cscript%3E']) {
      const { statusCode, headers, body } = await app.inject({
        url: `${oidc}/corp/callback?${query}`,
        headers: browser,
      });
      expect([statusCode, body]).toEqual([302, '']);
      expect(headers.location).toMatch(/\/console\/sign-in\?error=(validation_failed|sign_in_not_pending)$/);
    }
    const unknown = await app.inject({ url: `${oidc}/none/start`, headers: browser });
    expect(unknown.headers.location).toBe(`${origin}/console/sign-in?error=not_found`);
  });

  test('the operator’s own console gets the token behind the #, or the code of the error', async () => {
    const own = settingsWith([issuer({ id: 'corp' })], { PLATFORM_CONSOLE_URL: 'https://console.example.com/app/' });
    const withConsole = await appWith(own);
    const ada = person();
    await invite(ada.email!);
    const done = await comeBack(withConsole, ada);
    const [base, fragment] = String(done.headers.location).split('#') as [string, string];
    expect([done.statusCode, base]).toEqual([302, 'https://console.example.com/app/sign-in']);
    const token = new URLSearchParams(fragment);
    expect(Date.parse(token.get('expires_at')!)).toBeGreaterThan(Date.now());
    const headers = { authorization: `Bearer ${token.get('access_token')}` };
    expect((await client.send('GET', '/v1/users/me', { headers })).body.data.email).toBe(ada.email);
    expect(done.headers).toMatchObject({ 'referrer-policy': 'no-referrer', 'cache-control': 'no-store' });
    const failed = await comeBack(withConsole, person());
    expect([failed.statusCode, failed.headers.location]).toEqual([
      302,
      'https://console.example.com/app/sign-in?error=not_invited',
    ]);
  });
});

test('HEAD neither begins nor finishes a sign-in', async () => {
  for (const route of ['start', 'callback']) {
    const reply = await app.inject({ method: 'HEAD', url: `${oidc}/corp/${route}` });
    expect(reply.statusCode).toBe(405);
  }
});

describe('the setting', () => {
  const refused: [string, Json, string][] = [
    ['no JSON', '{', 'PLATFORM_OIDC_ISSUERS: must be a JSON list'],
    ['no list', {}, 'PLATFORM_OIDC_ISSUERS: Invalid input: expected array'],
    ['an issuer by http', [{ issuer: 'http://login.example.com' }], '0.issuer: must be an https URL'],
    ['a secret in itself', [{ client_secret: 'hidden-value' }], '0: Unrecognized key: "client_secret"'],
    ['no account', [{ account_id: undefined }], '0.account_id: Invalid input'],
    ['no domain', [{ domains: [] }], '0.domains: Too small'],
    ['a domain that is none', [{ domains: ['a b'] }], '0.domains.0: must be the domain'],
    ['an id twice', [{}, {}], 'PLATFORM_OIDC_ISSUERS: has an id twice'],
  ];
  test.each(refused)('with %s is refused, by the name of the field', (_what, given, text) => {
    const list = Array.isArray(given) ? given.map((fields) => issuer({ id: 'corp', ...fields })) : given;
    let message = '';
    try {
      settingsWith([], { PLATFORM_OIDC_ISSUERS: typeof list === 'string' ? list : JSON.stringify(list) });
    } catch (error) {
      message = (error as Error).message;
    }
    expect(message).toContain(text);
    expect(message).not.toContain('hidden-value');
  });

  test('empty means none; a domain is read as that of an address; an unreadable secret stops the process', () => {
    expect(settingsWith([], { PLATFORM_OIDC_ISSUERS: '' }).PLATFORM_OIDC_ISSUERS).toEqual([]);
    const read = settingsWith([issuer({ id: 'corp', domains: ['Bücher.Example'] })]);
    expect(read.PLATFORM_OIDC_ISSUERS[0]!.domains).toEqual(['xn--bcher-kva.example']);
    const { logger } = api.dependencies;
    const missing = settingsWith([issuer({ id: 'corp', client_secret_file: path.join(dir, 'missing') })]);
    expect(() => new IdentityProviders(missing, { logger })).toThrow('missing');
    fs.writeFileSync(path.join(dir, 'empty'), '\n');
    const empty = settingsWith([issuer({ id: 'corp', client_secret_file: path.join(dir, 'empty') })]);
    expect(() => new IdentityProviders(empty, { logger })).toThrow('the secret file of corp is empty');
  });
});

test('no secret, code or token is in the log or in a row', async () => {
  const ada = person();
  await invite(ada.email!);
  const begun = await begin();
  const back = await there.signIn(begun.url.href, ada);
  const { access_token: token } = (await finish(begun, back)).body.data;
  const second = await begin();
  back.searchParams.set('state', second.url.searchParams.get('state')!);
  await finish(second, back);
  const log = api.log.join('\n');
  expect(log).toContain('an identity is not proven');
  const rows = JSON.stringify([
    await em().execute('select * from audit_events'),
    await em().execute('select * from used_sign_in_states'),
    await em().execute('select * from users'),
  ]);
  const secrets = [clientSecret, token, token.split('.')[2], begun.cookie.split('=')[1]!.slice(0, 30)];
  for (const name of ['state', 'nonce']) secrets.push(begun.url.searchParams.get(name)!);
  secrets.push(back.searchParams.get('code')!);
  for (const secret of secrets) {
    expect(log).not.toContain(secret);
    expect(rows).not.toContain(secret);
  }
});
