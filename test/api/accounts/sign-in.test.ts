import { createHmac, randomBytes } from 'node:crypto';
import { jest } from '@jest/globals';
import { SqlEntityManager } from '@mikro-orm/postgresql';
import { SignJWT } from 'jose';
import { createApp } from '../../../api/app.ts';
import { Account } from '../../../db/accounts/account.entity.ts';
import { rotateTokenKeys } from '../../../db/accounts/token-keys.ts';
import { User } from '../../../db/accounts/user.entity.ts';
import { newId } from '../../../db/core/new-id.ts';
import { deriveSecrets } from '../../../platform/config/secrets.ts';
import { heldSeconds, holdWaits } from '../../support/held-waits.ts';
import { ContractClient, type Reply } from '../contract-client.ts';
import { type Caller, startApi, type TestApi } from '../test-api.ts';

const password = 'korrekt pferd batterie';
let api: TestApi;
/** Another process of the API on the same database. */
let replica: ContractClient;

interface Person extends Caller {
  email: string;
}

beforeAll(async () => {
  api = await startApi({ env: { PLATFORM_RATE_LIMIT_PER_ADDRESS: '0' } });
  await holdWaits(api.orm);
  const app = createApp(api.dependencies);
  await app.ready();
  replica = await ContractClient.of(app);
});
afterAll(() => api.stop());

async function newPerson(): Promise<Person> {
  const caller = await api.addAccount();
  const passwordHash = await api.dependencies.passwords.hash(password);
  await api.orm.em.fork().nativeUpdate(User, { userId: caller.userId }, { passwordHash });
  const { email } = await api.orm.em.fork().findOneOrFail(User, { userId: caller.userId });
  return { ...caller, email };
}

let lastAddress = 0;
/** An address that was not used before. */
const newAddress = () => `198.51.${100 + Math.floor(++lastAddress / 250)}.${lastAddress % 250}`;

const signIn = (email: string, secret: string, remoteAddress = newAddress()) =>
  api.send(null, 'POST', '/v1/auth/sign-in', { email, password: secret }, { remoteAddress });

const bearer = (token: string) => ({ headers: { authorization: `Bearer ${token}` } });
const me = (token: string, client: ContractClient = api.client) => client.send('GET', '/v1/users/me', bearer(token));
const readCode = (reply: Reply) => [reply.status, reply.body.code];

async function signInForToken({ email }: Person): Promise<string> {
  return (await signIn(email, password)).body.data.access_token;
}

test('a sign-in is recorded and returns a token that works for an hour in place of a key', async () => {
  const person = await newPerson();
  const reply = await signIn(person.email.toUpperCase(), password);
  expect(reply.status).toBe(200);
  expect(reply.headers['cache-control']).toBe('no-store');
  const { access_token: token, expires_at: expiresAt } = reply.body.data;
  expect(Math.abs(Date.parse(expiresAt) - Date.now() - 3_600_000)).toBeLessThan(60_000);
  for (const client of [api.client, replica]) {
    const profile = await me(token, client);
    expect(profile.body.data).toMatchObject({ user_id: person.userId, has_local_password: true });
    expect(Math.abs(Date.parse(profile.body.data.last_login) - Date.now())).toBeLessThan(60_000);
  }
  const key = await api.client.send('POST', '/v1/api-keys', { ...bearer(token), body: { name: 'by token' } });
  expect(key.status).toBe(201);
  const inQuery = await api.client.send('GET', `/v1/sandboxes/sbx-none/exec/stream?token=${token}`);
  expect(readCode(inQuery)).toEqual([404, 'not_found']);
});

test('a wrong password, an unknown e-mail, a look-alike and a user without a password get the same answer', async () => {
  const person = await newPerson();
  const withoutPassword = await api.addAccount();
  const { email } = await api.orm.em.fork().findOneOrFail(User, { userId: withoutPassword.userId });
  const disabled = await newPerson();
  await api.orm.em.fork().nativeUpdate(User, { userId: disabled.userId }, { status: 'disabled' });
  const replies = [
    await signIn(person.email, 'another password'),
    await signIn('nobody@example.com', password),
    await signIn(person.email.replace('o', 'о'), password),
    await signIn(email, ''),
    await signIn('nonsense', password),
    await signIn(disabled.email, password),
    await signIn(person.email, `${password}${'x'.repeat(2000)}`),
  ];
  for (const { status, body } of replies) {
    expect([status, body.code, body.error]).toEqual([
      401,
      'invalid_credentials',
      'The e-mail or the password is wrong',
    ]);
  }
});

test('whether an e-mail is known costs the same work: argon2 once, and as many statements', async () => {
  const { passwords } = api.dependencies;
  const known = await newPerson();
  const disabled = await newPerson();
  await api.orm.em.fork().nativeUpdate(User, { userId: disabled.userId }, { status: 'disabled' });
  const withoutPassword = await api.addAccount();
  const { email } = await api.orm.em.fork().findOneOrFail(User, { userId: withoutPassword.userId });
  const execute = jest.spyOn(SqlEntityManager.prototype, 'execute');
  const work: [number, number][] = [];
  for (const each of [known.email, 'nobody@example.com', disabled.email, email, 'nonsense']) {
    const before = passwords.computed;
    execute.mockClear();
    expect(readCode(await signIn(each, 'another password'))).toEqual([401, 'invalid_credentials']);
    work.push([passwords.computed - before, execute.mock.calls.length]);
  }
  execute.mockRestore();
  expect(work).toEqual(Array(5).fill([1, work[0]![1]]));
  expect(work[0]![1]).toBeGreaterThan(0);
});

test.each([
  ['10 MiB', 10 * 1024 * 1024],
  ['a password of 1 MiB', 1024 * 1024],
])('a body with %s is refused before any other work', async (_what, length) => {
  const before = await api.orm.em.fork().execute('select count(*) from sign_in_throttles');
  const reply = await signIn('a@example.com', 'x'.repeat(length));
  expect(readCode(reply)).toEqual([413, 'payload_too_large']);
  expect(await api.orm.em.fork().execute('select count(*) from sign_in_throttles')).toEqual(before);
});

test.each([[{}], [{ email: 'a@example.com' }], [{ email: 1, password: [] }], [[]]])(
  '%j is no sign-in',
  async (body) => {
    expect(readCode(await api.send(null, 'POST', '/v1/auth/sign-in', body))).toEqual([400, 'validation_failed']);
  },
);

describe('a token stops working at once, on each replica,', () => {
  const ends: [string, (person: Person, token: string) => Promise<unknown>][] = [
    ['after a sign-out', (_person, token) => api.client.send('POST', '/v1/auth/sign-out', bearer(token))],
    [
      'when its user is disabled',
      ({ userId }) => api.orm.em.fork().nativeUpdate(User, { userId }, { status: 'disabled' }),
    ],
    [
      'when its account is suspended',
      ({ accountId }) => api.orm.em.fork().nativeUpdate(Account, { accountId }, { status: 'suspended' }),
    ],
    [
      'when the password is changed',
      (person) =>
        api.send(person, 'POST', '/v1/user-management/change-password', {
          current_password: password,
          new_password: 'ein anderes pferd',
        }),
    ],
    [
      'when the user is gone',
      ({ userId }) => api.orm.em.fork().execute('delete from sessions where user_id = ?', [userId]),
    ],
  ];
  test.each(ends)('%s', async (_when, end) => {
    const person = await newPerson();
    const token = await signInForToken(person);
    expect([(await me(token)).status, (await me(token, replica)).status]).toEqual([200, 200]);
    await end(person, token);
    for (const client of [api.client, replica]) {
      expect(readCode(await me(token, client))).toEqual([401, 'unauthenticated']);
    }
  });

  test('and not again when its user is enabled, or its account reopened', async () => {
    const person = await newPerson();
    const [em, token] = [api.orm.em.fork(), await signInForToken(person)];
    await em.nativeUpdate(User, { userId: person.userId }, { status: 'disabled' });
    await em.nativeUpdate(User, { userId: person.userId }, { status: 'enabled' });
    expect((await me(token)).status).toBe(401);
    const second = await signInForToken(person);
    await em.nativeUpdate(Account, { accountId: person.accountId }, { status: 'suspended' });
    expect(readCode(await signIn(person.email, password))).toEqual([403, 'account_suspended']);
    await em.nativeUpdate(Account, { accountId: person.accountId }, { status: 'active' });
    expect((await me(second)).status).toBe(401);
    expect((await me(await signInForToken(person))).status).toBe(200);
  });
});

test('a sign-out ends only its own session; a key has none', async () => {
  const person = await newPerson();
  const [first, second] = [await signInForToken(person), await signInForToken(person)];
  expect((await api.client.send('POST', '/v1/auth/sign-out', bearer(first))).body.message).toBe('Signed out');
  expect((await me(second)).status).toBe(200);
  expect(readCode(await api.send(person, 'POST', '/v1/auth/sign-out'))).toEqual([400, 'no_session']);
});

describe('tokens that are not genuine', () => {
  const issued = { iss: 'sandbox-platform', aud: 'sandbox-platform-api' };
  let person: Person;
  let sessionId: string;
  let key: Uint8Array;
  beforeAll(async () => {
    person = await newPerson();
    const token = await signInForToken(person);
    sessionId = JSON.parse(Buffer.from(token.split('.')[1]!, 'base64url').toString()).sid;
    key = deriveSecrets(api.settings).accessTokenKey('first', 1);
  });

  const made = (
    claims: Record<string, unknown> = {},
    header: Record<string, unknown> = {},
    signedWith: Uint8Array = key,
    lifeSeconds = 600,
  ) =>
    new SignJWT({
      ...issued,
      sub: person.userId,
      sid: sessionId,
      exp: Math.floor(Date.now() / 1000) + lifeSeconds,
      ...claims,
    })
      .setProtectedHeader({ alg: 'HS256', typ: 'at+jwt', kid: 'first', ...header })
      .sign(signedWith);

  test('a token that is made like the platform’s is genuine', async () => {
    expect((await me(await made())).status).toBe(200);
  });

  test.each<[string, () => Promise<string> | string]>([
    ['signed with another key', () => made({}, {}, randomBytes(32))],
    ['of another purpose', () => made({}, { typ: 'reset+jwt' })],
    ['for another audience', () => made({ aud: 'another' })],
    ['of another issuer', () => made({ iss: 'another' })],
    ['that has expired', () => made({}, {}, key, -1)],
    ['that names another user', () => made({ sub: api.root.userId })],
    ['that names no user', () => made({ sub: undefined })],
    ['without an end', () => made({ exp: undefined })],
    ['of a session that never was', () => made({ sid: newId('session') })],
    ['with a session that is no text', () => made({ sid: { $ne: null } })],
    [
      'signed with a key that is not the session’s',
      () => made({}, { kid: 'second' }, deriveSecrets(api.settings).accessTokenKey('second', 1)),
    ],
    ['with a key id of any text', () => made({}, { kid: '../../etc/passwd' })],
    ['with a very long key id', () => made({}, { kid: 'k'.repeat(10_000) })],
    [
      'without a signature',
      async () => {
        const [, claims] = (await made()).split('.');
        return `${Buffer.from('{"alg":"none","typ":"at+jwt","kid":"first"}').toString('base64url')}.${claims}.`;
      },
    ],
    ['with HS512', () => made({}, { alg: 'HS512' }, Buffer.concat([key, key]))],
    [
      'signed as an exec token is',
      () => {
        const claims = Buffer.from(JSON.stringify({ sid: sessionId })).toString('base64url');
        return `eyJ.${claims}.${createHmac('sha256', deriveSecrets(api.settings).execTokenKeys()[0]!).update(claims).digest('base64url')}`;
      },
    ],
    ['cut short', async () => (await made()).slice(0, -1)],
    ['that is no token', () => 'eyJ..'],
  ])('a token %s gives no access', async (_what, token) => {
    const text = await token();
    expect(readCode(await me(text))).toEqual([401, 'unauthenticated']);
    const inQuery = await api.client.send(
      'GET',
      `/v1/sandboxes/sbx-none/exec/stream?token=${encodeURIComponent(text)}`,
    );
    expect(inQuery.status === 401 || inQuery.status === 400).toBe(true);
  });

  test('a rotation signs with a new key; with --end-sessions earlier tokens stop working', async () => {
    const before = await signInForToken(person);
    await rotateTokenKeys(api.orm.em, { endSessions: false });
    const after = await signInForToken(person);
    const parseKeyId = (token: string) => JSON.parse(Buffer.from(token.split('.')[0]!, 'base64url').toString()).kid;
    expect(parseKeyId(after)).not.toBe(parseKeyId(before));
    for (const token of [before, after]) expect((await me(token, replica)).status).toBe(200);
    await rotateTokenKeys(api.orm.em, { endSessions: true });
    for (const token of [before, after]) expect((await me(token, replica)).status).toBe(401);
    expect((await me(await signInForToken(person))).status).toBe(200);
  });
});

describe('wrong passwords slow down', () => {
  /** Tries wrong passwords until one is refused without a check. @returns the number of checks */
  async function failUntilRefused(email: string, address: () => string, limit: number): Promise<number> {
    for (let tried = 0; tried <= limit; tried++) {
      const reply = await signIn(email, `wrong ${tried}`, address());
      if (reply.status === 429) {
        expect(reply.body.code).toBe('too_many_sign_ins');
        expect(Number(reply.headers['retry-after'])).toBeGreaterThan(0);
        return tried;
      }
      expect(reply.status).toBe(401);
    }
    return limit + 1;
  }

  /** Moves the recorded times back, as if so much time had passed. */
  const later = (seconds: number) =>
    api.orm.em
      .fork()
      .execute(
        `update sign_in_throttles set next_at = next_at - ? * interval '1 second', updated_at = updated_at - ? * interval '1 second'`,
        [heldSeconds + seconds, seconds],
      );

  test('an e-mail from one address, known or not, also with the right password; other addresses are not affected', async () => {
    const person = await newPerson();
    const address = newAddress();
    expect((await signIn(person.email, password, address)).status).toBe(200);
    expect(await failUntilRefused(person.email, () => address, 20)).toBe(11);
    expect((await signIn(person.email, password, address)).status).toBe(429);
    expect((await signIn(person.email, password)).status).toBe(200);
    await later(61);
    expect((await signIn(person.email, password, address)).status).toBe(200);
    expect(await failUntilRefused(person.email, () => address, 20)).toBe(11);
  });

  test('an unknown e-mail as a known one', async () => {
    const address = newAddress();
    expect(await failUntilRefused(`nobody-${address}@example.com`, () => address, 20)).toBe(11);
  });

  test('50 concurrent guesses get no more checks than sequential ones', async () => {
    const person = await newPerson();
    const address = newAddress();
    const replies = await Promise.all(
      Array.from({ length: 50 }, (_, index) =>
        (index % 2 ? api.client : replica).send('POST', '/v1/auth/sign-in', {
          body: { email: person.email, password: `guess ${index}` },
          remoteAddress: address,
        }),
      ),
    );
    expect(replies.filter(({ status }) => status === 401)).toHaveLength(11);
    expect(replies.filter(({ status }) => status === 429)).toHaveLength(39);
  });

  test('refused attempts do not make the wait longer', async () => {
    const person = await newPerson();
    const address = newAddress();
    await failUntilRefused(person.email, () => address, 20);
    const waits = [];
    for (let i = 0; i < 10; i++)
      waits.push(Number((await signIn(person.email, 'wrong', address)).headers['retry-after']));
    expect(Math.max(...waits)).toBe(waits[0]);
  });

  test('an e-mail from many addresses; its owner can still sign in from an earlier address', async () => {
    const person = await newPerson();
    const home = newAddress();
    expect((await signIn(person.email, password, home)).status).toBe(200);
    expect(await failUntilRefused(person.email, newAddress, 40)).toBe(21);
    expect((await signIn(person.email, password, newAddress())).status).toBe(429);
    expect((await signIn(person.email, password, home)).status).toBe(200);
  });

  test('an address with many e-mails; users who have signed in from there before still can', async () => {
    const person = await newPerson();
    const office = newAddress();
    expect((await signIn(person.email, password, office)).status).toBe(200);
    let tried = 0;
    let status = 401;
    for (; status === 401; tried++) status = (await signIn(`list-${tried}@example.com`, 'wrong', office)).status;
    expect([tried - 1, status]).toEqual([101, 429]);
    expect((await signIn(person.email, password, office)).status).toBe(200);
  });

  test('addresses of one IPv6 network count as one', async () => {
    const person = await newPerson();
    let last = 0;
    const address = () => `2001:db8:1:2::${(++last).toString(16)}`;
    expect(await failUntilRefused(person.email, address, 20)).toBe(11);
  });
});

describe('changing the own password', () => {
  const change = (caller: Caller, current: string, next: string) =>
    api.send(caller, 'POST', '/v1/user-management/change-password', { current_password: current, new_password: next });

  test('accepts the new password and no longer the old one', async () => {
    const person = await newPerson();
    expect((await change(person, password, 'ein anderes pferd')).body.message).toContain('changed');
    expect((await signIn(person.email, password)).status).toBe(401);
    expect((await signIn(person.email, 'ein anderes pferd')).status).toBe(200);
  });

  test('the same characters in another encoding are the same password', async () => {
    const person = await newPerson();
    await change(person, password, 'bl\u00fctenbl\u00e4tter');
    expect((await signIn(person.email, 'blu\u0308tenbla\u0308tter')).status).toBe(200);
  });

  test('the reason is returned, and nothing changes', async () => {
    const person = await newPerson();
    const noPassword = await api.addAccount();
    expect(readCode(await change(person, 'not this one', 'ein anderes pferd'))).toEqual([400, 'wrong_password']);
    expect(readCode(await change(person, password, password))).toEqual([400, 'password_not_changed']);
    expect(readCode(await change(person, password, 'short'))).toEqual([400, 'weak_password']);
    expect(readCode(await change(person, password, 'password123'))).toEqual([400, 'weak_password']);
    expect(readCode(await change(person, password, person.email))).toEqual([400, 'weak_password']);
    expect(readCode(await change(noPassword, '', 'ein anderes pferd'))).toEqual([400, 'no_local_password']);
    expect((await signIn(person.email, password)).status).toBe(200);
  });

  test('one of two concurrent changes succeeds', async () => {
    const person = await newPerson();
    const replies = await Promise.all(
      ['eins zwei drei vier', 'fünf sechs sieben'].map((next) => change(person, password, next)),
    );
    expect(replies.map(({ status }) => status).sort()).toEqual([200, 400]);
  });

  test('a stolen key cannot guess the password quickly', async () => {
    const person = await newPerson();
    const statuses = [];
    for (let i = 0; i < 13; i++) statuses.push((await change(person, `guess ${i}`, 'ein anderes pferd')).status);
    expect(statuses.slice(0, 11)).toEqual(Array(11).fill(400));
    expect(statuses.slice(11)).toEqual([429, 429]);
  });
});

test('neither passwords nor tokens are in the log', async () => {
  const person = await newPerson();
  const token = await signInForToken(person);
  await me(token);
  await api.client.send('GET', `/v1/sandboxes/sbx-none/exec/stream?token=${token}`);
  const log = api.log.join('\n');
  expect(log).toContain('/v1/auth/sign-in');
  for (const secret of [password, token, token.split('.')[2]!]) expect(log).not.toContain(secret);
});
