import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { Client, Connection } from '@temporalio/client';
import { pino } from 'pino';
import { TemporalPasswordResets } from '../../../api/routes/accounts/sign-in/password-resets.ts';
import { Account } from '../../../db/accounts/account.entity.ts';
import { addAccountLink } from '../../../db/accounts/account-links.ts';
import { User } from '../../../db/accounts/user.entity.ts';
import { workflowKinds } from '../../../domain/workflow-registry.ts';
import { clientConnectionOptions } from '../../../platform/temporal/client-connection-options.ts';
import type { Reply } from '../../api/contract-client.ts';
import { type Caller, startApi, type TestApi } from '../../api/test-api.ts';
import { type ControlPlane, startControlPlane } from '../../support/control-plane.ts';
import { holdWaits } from '../../support/held-waits.ts';
import { MailServer, tokenIn } from '../../support/mail-server.ts';
import { MemoryDriver } from '../../support/memory-driver.ts';
import { recordHistory } from '../../support/recorded-histories.ts';
import { temporalAddress } from '../../support/stack.ts';
import { TcpRelay } from '../../support/tcp-relay.ts';

/** Password resets through the API, by a workflow on a real Temporal, with mails on a real SMTP server. */
const logger = pino({ level: 'silent' });
const newPassword = 'korrekt pferd batterie';
let mails: MailServer;
let plane: ControlPlane;
let api: TestApi;

beforeAll(async () => {
  mails = await MailServer.start();
  plane = await startControlPlane({
    driver: new MemoryDriver(),
    env: { SMTP_URL: mails.url, PLATFORM_MAIL_FROM: 'Sandboxes <no-reply@platform.test>' },
  });
  api = await startApi({
    env: { PLATFORM_RATE_LIMIT_PER_ADDRESS: '0' },
    on: {
      orm: plane.orm,
      account: plane.account,
      commands: plane.commands,
      passwordResets: new TemporalPasswordResets({ client: plane.client, logger }),
    },
  });
}, 120_000);
afterAll(async () => {
  await api?.stop();
  await plane?.stop();
  await mails?.stop();
});

interface Person extends Caller {
  email: string;
}

async function newPerson(): Promise<Person> {
  const member = await api.addUser(api.root);
  const { email } = await plane.orm.em.fork().findOneOrFail(User, { userId: member.userId });
  return { ...member, email };
}

const formatWorkflowId = workflowKinds.passwordReset.workflowId;
const getHandle = ({ userId }: Caller) => plane.client.workflow.getHandle(formatWorkflowId(userId));
const request = (caller: Caller) => api.send(caller, 'POST', '/v1/user-management/request-password-reset');
const forgot = (email: string) => api.send(null, 'POST', '/v1/auth/forgot-password', { email });
const finish = (token: string, password = newPassword) =>
  api.send(null, 'POST', '/v1/auth/reset-password', { token, new_password: password });
const signIn = ({ email }: Person, password = newPassword) =>
  api.send(null, 'POST', '/v1/auth/sign-in', { email, password });
const readCode = (reply: Reply) => [reply.status, reply.body.code];

async function signInForSession(person: Person): Promise<string> {
  return (await signIn(person)).body.data.access_token;
}

test('a reset is requested, mailed and used once; the workflow ends and another may begin', async () => {
  const person = await newPerson();
  const asked = await request(person);
  expect([asked.status, asked.body.data]).toEqual([200, undefined]);
  const again = await request(person);
  expect(readCode(again)).toEqual([429, 'password_reset_pending']);
  expect(again.body.data).toEqual({ time_remaining_minutes: 30 });

  const mail = await mails.take(person.email);
  expect(mail.from).toEqual({ name: 'Sandboxes', address: 'no-reply@platform.test' });
  expect(mail.text).toContain('http://platform.test/console/reset-password?token=');
  const token = tokenIn(mail);
  expect((await finish(token)).body.message).toBe('The new password is set');
  expect(readCode(await finish(token, 'ein anderes pferd'))).toEqual([400, 'invalid_link']);
  expect((await signIn(person)).status).toBe(200);
  const profile = await api.send(person, 'GET', '/v1/users/me');
  expect(profile.body.data).toMatchObject({ has_local_password: true, email_verified: true });

  await getHandle(person).result();
  if (process.env.RECORD_HISTORIES === '1') {
    await recordHistory(plane.client, 'password-reset', formatWorkflowId(person.userId));
  }
  expect((await request(person)).status).toBe(200);
  expect(tokenIn(await mails.take(person.email))).not.toBe(token);
});

test('a reset ends existing sessions, and is void if the password was changed in the meantime', async () => {
  const person = await newPerson();
  await request(person);
  await finish(tokenIn(await mails.take(person.email)));
  await getHandle(person).result();
  const session = await signInForSession(person);
  await request(person);
  const token = tokenIn(await mails.take(person.email));
  const changed = await api.client.send('POST', '/v1/user-management/change-password', {
    headers: { authorization: `Bearer ${session}` },
    body: { current_password: newPassword, new_password: 'ein anderes pferd' },
  });
  expect(changed.status).toBe(200);
  expect(readCode(await finish(token))).toEqual([400, 'invalid_link']);
  await getHandle(person).result();
});

test('of ten concurrent uses one sets its password', async () => {
  const person = await newPerson();
  await request(person);
  const token = tokenIn(await mails.take(person.email));
  const passwords = Array.from({ length: 10 }, (_, index) => `pferd batterie ${index}`);
  const replies = await Promise.all(passwords.map((password) => finish(token, password)));
  expect(replies.filter(({ status }) => status === 200)).toHaveLength(1);
  const winner = replies.findIndex(({ status }) => status === 200);
  expect((await signIn(person, passwords[winner])).status).toBe(200);
});

test('a bad password does not use up the link', async () => {
  const person = await newPerson();
  await request(person);
  const token = tokenIn(await mails.take(person.email));
  for (const bad of ['short', 'password1', person.email, 'x'.repeat(1025)]) {
    expect(readCode(await finish(token, bad))).toEqual([400, 'weak_password']);
  }
  expect((await finish(token)).status).toBe(200);
});

test.each([
  ['nothing', ''],
  ['a guess', 'A'.repeat(43)],
  ['an access token', 'eyJhbGciOiJIUzI1NiJ9.e30.c2ln'],
])('%s as a token sets no password', async (_what, token) => {
  expect(readCode(await finish(token))).toEqual([400, 'invalid_link']);
});

describe('forgot-password', () => {
  test('answers the same for everyone, and mails only to users', async () => {
    const person = await newPerson();
    const disabled = await newPerson();
    await plane.orm.em.fork().nativeUpdate(User, { userId: disabled.userId }, { status: 'disabled' });
    const provided = await newPerson();
    await plane.orm.em.fork().nativeUpdate(User, { userId: provided.userId }, { oauthProvider: 'https://idp.example' });
    const emails = [person.email.toUpperCase(), disabled.email, provided.email, 'nobody@example.com', 'nonsense', ''];
    const replies = await Promise.all(emails.map(forgot));
    const again = await forgot(person.email);
    for (const { status, body } of [...replies, again]) {
      expect([status, body.message]).toEqual([202, replies[0]!.body.message]);
    }
    const mail = await mails.take(person.email);
    expect((await finish(tokenIn(mail))).status).toBe(200);
    await getHandle(person).result();
    for (const { userId } of [disabled, provided]) {
      await expect(getHandle({ userId } as Caller).describe()).rejects.toThrow(/not found/i);
    }
  });
});

describe('made by the account root', () => {
  const reset = (caller: Caller, { userId }: Caller) =>
    api.send(caller, 'POST', `/v1/user-management/users/${userId}/reset-password`);

  test('the link goes to the user', async () => {
    const person = await newPerson();
    const made = await reset(api.root, person);
    expect([made.status, made.body.data]).toEqual([200, { message: expect.stringContaining('30 minutes') }]);
    expect((await finish(tokenIn(await mails.take(person.email)))).status).toBe(200);
  });

  test('others, strangers and those without a password here are refused', async () => {
    const person = await newPerson();
    const stranger = await api.addAccount();
    expect(readCode(await reset(person, person))).toEqual([403, 'root_required']);
    expect(readCode(await reset(stranger, person))).toEqual([404, 'not_found']);
    expect(readCode(await reset(api.root, { ...person, userId: 'usr-none' }))).toEqual([404, 'not_found']);
    await plane.orm.em.fork().nativeUpdate(User, { userId: person.userId }, { oauthProvider: 'https://idp.example' });
    expect(readCode(await reset(api.root, person))).toEqual([400, 'no_local_password']);
    expect(readCode(await request(person))).toEqual([400, 'no_local_password']);
  });
});

test('a mail is tried again, the same each time, until a server takes it', async () => {
  const person = await newPerson();
  mails.answersTo.set(person.email, ['451 try later']);
  await request(person);
  const mail = await mails.take(person.email);
  expect(mail.messageId).toMatch(/^<[0-9a-f]{32}@platform\.test>$/);
  const refused = mails.refused.filter(({ receivers }) => receivers.includes(person.email));
  expect(refused.map(({ messageId, text }) => ({ messageId, text }))).toEqual([
    { messageId: mail.messageId, text: mail.text },
  ]);
  expect((await finish(tokenIn(mail))).status).toBe(200);
}, 180_000);

test('a mail that the server refuses for good ends the reset, so that another may begin', async () => {
  const person = await newPerson();
  mails.answersTo.set(person.email, ['550 no such user']);
  await request(person);
  await expect(getHandle(person).result()).rejects.toThrow('Workflow execution failed');
  if (process.env.RECORD_HISTORIES === '1') {
    await recordHistory(plane.client, 'password-reset-refused', formatWorkflowId(person.userId));
  }
  expect((await request(person)).status).toBe(200);
  expect((await finish(tokenIn(await mails.take(person.email)))).status).toBe(200);
});

test('a late attempt at the mail does not make a used link work again', async () => {
  const person = await newPerson();
  await request(person);
  const token = tokenIn(await mails.take(person.email));
  await finish(token);
  const expiresAt = new Date(Date.now() + 60_000);
  await addAccountLink(plane.orm.em, {
    token,
    purpose: 'password-reset',
    userId: person.userId,
    provesEmail: true,
    expiresAt,
  });
  expect(readCode(await finish(token, 'ein anderes pferd'))).toEqual([400, 'invalid_link']);
});

test('a request that finds a running reset, and then no Temporal, can be repeated', async () => {
  const user = { accountId: api.root.accountId, userId: (await newPerson()).userId };
  await new TemporalPasswordResets({ client: plane.client, logger }).request(user);
  const relay = await TcpRelay.open(await temporalAddress(), '127.0.0.1');
  const connection = Connection.lazy(clientConnectionOptions({ TEMPORAL_ADDRESS: relay.address, TEMPORAL_TLS: false }));
  const client = new Client({
    connection,
    namespace: plane.client.options.namespace,
    dataConverter: plane.client.options.dataConverter,
    interceptors: {
      workflow: [
        {
          describe(input, next) {
            relay.close();
            return next(input);
          },
        },
      ],
    },
  });
  const again = new TemporalPasswordResets({ client, logger }).request(user);
  await expect(again).rejects.toMatchObject({
    code: 'temporarily_unavailable',
    message: expect.stringMatching('No mail'),
  });
  await connection.close();
});

test('a link that has expired is void', async () => {
  const person = await newPerson();
  await request(person);
  const token = tokenIn(await mails.take(person.email));
  await plane.orm.em
    .fork()
    .execute(`update account_links set expires_at = now() where user_id = ? and ended_at is null`, [person.userId]);
  expect(readCode(await finish(token))).toEqual([400, 'invalid_link']);
});

test('a link to a former address of the user, or of a disabled user, is void', async () => {
  const [moved, disabled] = [await newPerson(), await newPerson()];
  await request(moved);
  await request(disabled);
  const tokens = [tokenIn(await mails.take(moved.email)), tokenIn(await mails.take(disabled.email))];
  const em = plane.orm.em.fork();
  await em.nativeUpdate(User, { userId: moved.userId }, { email: `new-${moved.email}` });
  await em.nativeUpdate(User, { userId: disabled.userId }, { status: 'disabled' });
  for (const token of tokens) expect(readCode(await finish(token))).toEqual([400, 'invalid_link']);
});

test('a user whose sign-in is slowed down by others can sign in with a link', async () => {
  await holdWaits(plane.orm);
  const person = await newPerson();
  await request(person);
  await finish(tokenIn(await mails.take(person.email)));
  await getHandle(person).result();
  const attackers = Array.from({ length: 22 }, (_, index) => `203.0.113.${index}`);
  for (const remoteAddress of attackers) {
    const body = { email: person.email, password: 'wrong' };
    await api.send(null, 'POST', '/v1/auth/sign-in', body, { remoteAddress });
  }
  const elsewhere = { remoteAddress: '198.51.100.77' };
  const body = { email: person.email, password: newPassword };
  expect((await api.send(null, 'POST', '/v1/auth/sign-in', body, elsewhere)).status).toBe(429);
  await forgot(person.email);
  const token = tokenIn(await mails.take(person.email));
  const next = 'ein anderes pferd';
  await api.send(null, 'POST', '/v1/auth/reset-password', { token, new_password: next }, elsewhere);
  const reply = await api.send(null, 'POST', '/v1/auth/sign-in', { email: person.email, password: next }, elsewhere);
  expect(reply.status).toBe(200);
});

test('neither link nor password is readable in histories or in the log', async () => {
  const person = await newPerson();
  await request(person);
  const token = tokenIn(await mails.take(person.email));
  await finish(token);
  await getHandle(person).result();
  const history = JSON.stringify(await getHandle(person).fetchHistory());
  const decoded = await Promise.all(
    [...history.matchAll(/"data":"([^"]+)"/g)].map(([, data]) => Buffer.from(data!, 'base64').toString()),
  );
  const rows = JSON.stringify(await plane.orm.em.fork().execute('select * from account_links'));
  for (const secret of [token, newPassword]) {
    for (const text of [history, ...decoded, rows, ...api.log]) expect(text).not.toContain(secret);
  }
});

test('a suspended account gets no reset through its keys', async () => {
  const owner = await api.addAccount();
  await plane.orm.em.fork().nativeUpdate(Account, { accountId: owner.accountId }, { status: 'suspended' });
  expect(readCode(await request(owner))).toEqual([403, 'account_suspended']);
  await expect(getHandle(owner).describe()).rejects.toThrow(/not found/i);
});
