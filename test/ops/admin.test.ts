import { execFile } from 'node:child_process';
import os from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { identifyApiKey } from '../../db/accounts/identities.ts';
import { resetPassword } from '../../db/accounts/passwords.ts';
import { User } from '../../db/accounts/user.entity.ts';
import { OutboxEntry } from '../../db/core/outbox-entry.entity.ts';
import { revokedLastHops } from '../../db/hosts/last-hop-certificates.ts';
import { createOrm } from '../../db/orm.ts';
import { reserveHost } from '../../db/sandboxes/admission.ts';
import { runAdmin } from '../../ops/operator/admin/run-admin.ts';
import { type TestDatabase, testDatabase } from '../support/stack.ts';

const run = promisify(execFile);
const root = path.resolve(import.meta.dirname, '../..');
let database: TestDatabase;

beforeAll(async () => {
  database = await testDatabase();
}, 180_000);
afterAll(() => database.drop());

interface Done {
  code: number;
  stdout: string;
  stderr: string;
}

const settings = () => ({
  DATABASE_URL: database.url,
  PLATFORM_SECRET_KEY: Buffer.alloc(32, 1).toString('base64'),
});

async function admin(...args: string[]): Promise<Done> {
  const { status, stdout = '', stderr = '' } = await runAdmin(args, settings());
  return { code: status, stdout, stderr };
}

/** The same in a process of its own, as `npm run admin` runs it. */
async function adminProcess(...args: string[]): Promise<Done> {
  const env = { ...process.env, NODE_OPTIONS: '', ...settings() };
  return run(process.execPath, ['ops/operator/admin.ts', ...args], { cwd: root, env }).then(
    (done) => ({ code: 0, ...done }),
    (failed) => ({ code: failed.code, stdout: failed.stdout, stderr: failed.stderr }),
  );
}

test('an account is made once, with its key, and then listed, suspended and reopened', async () => {
  const made = await adminProcess('create-account', '--email', 'ann@example.com', '--plan', 'pro', '--name', 'Ann');
  const account = JSON.parse(made.stdout);
  expect(account).toEqual({
    accountId: expect.stringMatching(/^acc-/),
    userId: expect.stringMatching(/^usr-/),
    projectId: expect.stringMatching(/^prj-/),
    keyId: expect.stringMatching(/^key-/),
    apiKey: expect.stringMatching(/^spk_/),
  });
  const again = await adminProcess('create-account', '--email', 'Ann@example.com');
  expect(again).toMatchObject({ code: 1, stderr: expect.stringContaining('already in use') });

  await admin('suspend-account', '--account', account.accountId);
  const [suspended] = JSON.parse((await admin('list-accounts')).stdout);
  expect(suspended).toMatchObject({
    accountId: account.accountId,
    email: 'ann@example.com',
    planName: 'pro',
    status: 'suspended',
  });
  await admin('reopen-account', '--account', account.accountId);
  expect(JSON.parse((await admin('list-accounts')).stdout)[0].status).toBe('active');
  expect(JSON.parse((await admin('grant-admin', '--email', 'ann@example.com')).stdout).role).toBe('admin');
}, 180_000);

test('each command that changes something is in the audit log, with the values before', async () => {
  const { accountId, userId } = JSON.parse((await admin('create-account', '--email', 'aud@example.com')).stdout);
  await admin('grant-admin', '--email', 'Aud@example.com');
  await admin('suspend-account', '--account', accountId);
  await admin('reset-password', '--email', 'aud@example.com');
  await admin('rotate-token-keys');
  const orm = await createOrm(database.url, 1);
  const events = (await orm.em.fork().execute(
    `select * from audit_events where account_id = ? or (account_id is null and action = 'rotate-token-keys')
        order by created_at`,
    [accountId],
  )) as Record<string, unknown>[];
  await orm.close();
  expect(events.map(({ action, object_id: id, before, after }) => [action, id, before, after])).toEqual([
    [
      'create-account',
      accountId,
      null,
      { email: 'aud@example.com', display_name: 'aud@example.com', plan_name: 'hobby', role: 'user' },
    ],
    ['grant-admin', userId, { role: 'user' }, { role: 'admin' }],
    ['suspend-account', accountId, { status: 'active' }, { status: 'suspended' }],
    ['reset-password', userId, null, null],
    ['rotate-token-keys', expect.stringMatching(/^tkk-/), null, { ended_sessions: 0 }],
  ]);
  const by = `${os.userInfo().username}@${os.hostname()}`;
  for (const event of events) expect(event).toMatchObject({ address: by, actor_user_id: null, actor_key_id: null });
}, 180_000);

test('the last admin of the platform cannot be removed, nor can their account', async () => {
  const made = JSON.parse((await admin('create-account', '--email', 'only@example.com', '--admin')).stdout);
  const orm = await createOrm(database.url, 1);
  await orm.em.fork().execute("update users set role = 'user' where user_id <> ?", [made.userId]);
  await orm.close();
  for (const command of [
    ['revoke-admin', '--email', 'only@example.com'],
    ['suspend-account', '--account', made.accountId],
  ]) {
    const { code, stderr } = await admin(...command);
    expect([code, stderr]).toEqual([1, expect.stringContaining('The last enabled admin')]);
  }
  await admin('create-account', '--email', 'other-admin@example.com', '--admin');
  expect((await admin('revoke-admin', '--email', 'only@example.com')).code).toBe(0);
}, 180_000);

test('dead letters are listed with their error, and retried', async () => {
  const orm = await createOrm(database.url, 1);
  const em = orm.em.fork();
  const entry = em.create(OutboxEntry, {
    workflowType: 'sandbox',
    workflowId: 'sbx-x',
    input: {},
    deadAt: new Date(),
    refusals: 10,
    lastError: 'refused',
  });
  await em.flush();
  const [listed] = JSON.parse((await admin('list-dead-letters')).stdout);
  expect(listed).toMatchObject({ id: entry.id, workflowId: 'sbx-x', lastError: 'refused' });
  expect(JSON.parse((await admin('retry-dead-letters', '--id', entry.id)).stdout)).toEqual({ retried: 1 });
  expect(await orm.em.fork().findOne(OutboxEntry, { id: entry.id })).toMatchObject({ deadAt: null, refusals: 0 });
  await orm.close();
}, 180_000);

test('a link to a new password works once, and does not depend on who reads the mail', async () => {
  await admin('create-account', '--email', 'root@example.com');
  const { link, expiresAt } = JSON.parse((await admin('reset-password', '--email', 'ROOT@example.com')).stdout);
  expect(link).toMatch(/^http:\/\/127\.0\.0\.1:7080\/console\/reset-password\?token=[\w-]{43}$/);
  expect(Math.abs(Date.parse(expiresAt) - Date.now() - 1_800_000)).toBeLessThan(60_000);
  const orm = await createOrm(database.url, 1);
  const reset = { token: new URL(link).searchParams.get('token')!, passwordHash: 'a hash', address: '127.0.0.1' };
  const userId = await resetPassword(orm.em, reset);
  expect(userId).toMatch(/^usr-/);
  expect(await resetPassword(orm.em, reset)).toBeNull();
  const user = await orm.em.fork().findOneOrFail(User, { userId: userId! });
  expect(user).toMatchObject({ passwordHash: 'a hash', emailVerified: false });
  await orm.close();
}, 180_000);

test('keys of tokens rotate', async () => {
  const rotated = JSON.parse((await admin('rotate-token-keys', '--end-sessions')).stdout);
  expect(rotated).toEqual({ keyId: expect.stringMatching(/^tkk-/), endedSessions: 0 });
}, 180_000);

test.each([
  [['create-account'], '--email is missing'],
  [['create-account', '--email', 'nonsense'], 'is not an e-mail address'],
  [['create-account', '--email', 'b@example.com', '--plan', 'gold'], 'There is no plan gold'],
  [['suspend-account', '--account', 'acc-none'], 'There is no account'],
  [['create-account', '--email', 'аnn@example.com'], 'is not an e-mail address'],
  [['reset-password', '--email', 'none@example.com'], 'There is no enabled user'],
  [['grant-admin', '--email', 'none@example.com'], 'There is no user'],
  [['retry-dead-letters', '--id', '12'], 'There is no dead letter 12'],
  [['retry-dead-letters', '--id', 'x'], 'is not the id of an entry'],
  [['create-account', '--colour', 'red'], 'Unknown option'],
])('%j is refused with the reason', async (args, text) => {
  const { code, stderr } = await admin(...args);
  expect(code).toBe(1);
  expect(stderr).toContain(text);
  expect(stderr).not.toContain('    at ');
});

test('credit is granted and taken back, in amounts of the currency only', async () => {
  const { accountId } = JSON.parse((await admin('create-account', '--email', 'credit@example.com')).stdout);
  const granted = await admin('grant-credit', '--account', accountId, '--amount', '25.00');
  expect(JSON.parse(granted.stdout)).toMatchObject({ accountId, balance: '25.00', currency: 'USD' });
  const refunded = await admin('refund-credit', '--account', accountId, '--amount', '5');
  expect(JSON.parse(refunded.stdout)).toMatchObject({ balance: '20.00' });
  for (const [command, amount, message] of [
    ['refund-credit', '20.01', 'has a balance of 20.00 USD'],
    ['grant-credit', '0.001', 'not an amount'],
    ['grant-credit', '0', 'not an amount'],
    ['grant-credit', 'NaN', 'not an amount'],
  ] as const) {
    const { code, stderr } = await admin(command, '--account', accountId, `--amount=${amount}`);
    expect([code, stderr]).toEqual([1, expect.stringContaining(message)]);
  }
}, 180_000);

test('a key is made for an existing account, up to the limit of its plan, and is in the audit log', async () => {
  const { accountId, userId } = JSON.parse((await admin('create-account', '--email', 'lost-key@example.com')).stdout);
  const made = JSON.parse((await admin('create-api-key', '--account', accountId, '--name', 'rescue')).stdout);
  expect(made).toEqual({
    accountId,
    userId,
    email: 'lost-key@example.com',
    keyId: expect.stringMatching(/^key-/),
    name: 'rescue',
    apiKey: expect.stringMatching(/^spk_/),
  });
  const orm = await createOrm(database.url, 1);
  expect((await identifyApiKey(orm.em.fork(), made.apiKey))?.userId).toBe(userId);
  const [event] = (await orm.em
    .fork()
    .execute('select action, after from audit_events where object_id = ?', [made.keyId])) as unknown[];
  expect(event).toEqual({ action: 'create-api-key', after: expect.objectContaining({ name: 'rescue' }) });
  expect(JSON.stringify(event)).not.toContain(made.apiKey);
  await orm.em.fork().execute('update users set max_active_api_keys = 2 where user_id = ?', [userId]);
  await orm.close();
  for (const [args, message] of [
    [['--account', accountId], 'may have 2 active API keys'],
    [['--account', accountId, '--email', 'ann@example.com'], `${accountId} has no user ann@example.com`],
    [['--account', 'acc-none'], 'There is no account acc-none'],
  ] as const) {
    const { code, stderr } = await admin('create-api-key', ...args);
    expect([code, stderr]).toEqual([1, expect.stringContaining(message)]);
  }
}, 180_000);

test('an identity of the last hop is revoked permanently', async () => {
  const orm = await createOrm(database.url, 1);
  const revoked = await admin('revoke-last-hop', '--role', 'gateway', '--name', 'gateway-1');
  expect(JSON.parse(revoked.stdout)).toEqual({ role: 'gateway', name: 'gateway-1', revoked: true });
  expect(await revokedLastHops(orm.em)).toEqual([{ role: 'gateway', name: 'gateway-1' }]);
  await orm.close();
  expect(await admin('revoke-last-hop', '--role', 'root', '--name', 'x')).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('--role is host or gateway'),
  });
}, 180_000);

test('a drained host accepts no new or resumed sandboxes until the end of the drain', async () => {
  const orm = await createOrm(database.url, 2);
  await orm.em.fork().execute(
    `insert into hosts (host_id, region, region_name, lease_expires_at) values
       ('host-drained', 'local', 'Local', now() + interval '1 hour'), ('host-gone', 'local', 'Local', now())`,
  );
  const needed = { cpu: 1, memoryMb: 128, diskGb: 1, udpPorts: 0, expected: { cpu: 0, memoryMb: 0, diskMb: 0 } };
  const placed = (where: { hostId?: string }) =>
    orm.em
      .fork()
      .transactional((tx) => reserveHost(tx, needed, where))
      .then(
        ({ hostId }) => hostId,
        ({ code }) => code,
      );
  expect(await placed({})).toBe('host-drained');
  const drained = await adminProcess('drain-host', '--host', 'host-drained', '--wait');
  expect(drained).toMatchObject({ code: 0, stderr: expect.stringContaining('host-drained: no sandboxes') });
  expect(JSON.parse(drained.stdout)).toMatchObject({ hostId: 'host-drained', state: 'draining', sandboxes: {} });
  expect(await placed({})).toBe('no_capacity');
  expect(await placed({ hostId: 'host-drained' })).toBe('host_unavailable');
  const hosts = JSON.parse((await admin('list-hosts')).stdout);
  expect(hosts.map(({ hostId, state }: Record<string, string>) => [hostId, state])).toEqual([
    ['host-drained', 'draining'],
    ['host-gone', 'away'],
  ]);
  for (const time of [hosts[0].drainingSince, hosts[0].leaseExpiresAt])
    expect(time).toMatch(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/);
  expect(JSON.parse((await admin('undrain-host', '--host', 'host-drained')).stdout).state).toBe('ready');
  expect(await placed({ hostId: 'host-drained' })).toBe('host-drained');
  expect(await admin('drain-host', '--host', 'host-x')).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('There is no host host-x'),
  });
  const events = (await orm.em
    .fork()
    .execute(
      "select action, before, after from audit_events where object_id = 'host-drained' order by created_at",
    )) as {
    action: string;
  }[];
  expect(events).toEqual([
    { action: 'drain-host', before: { draining: false }, after: { draining: true } },
    { action: 'undrain-host', before: { draining: true }, after: { draining: false } },
  ]);
  await orm.close();
}, 180_000);

test('help is printed for all commands and for one, and a wrong name is reported', async () => {
  expect(await adminProcess('--help')).toMatchObject({ code: 0, stdout: expect.stringContaining('drain-host --host') });
  const help = await adminProcess('drain-host', '--help');
  expect(help).toMatchObject({ code: 0, stdout: expect.stringMatching(/^Usage: npm run admin -- drain-host/) });
  expect(await adminProcess('drain')).toMatchObject({ code: 2, stderr: expect.stringContaining('no command drain') });
});
