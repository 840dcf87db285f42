import { randomBytes } from 'node:crypto';
import net from 'node:net';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { AccessTokens } from '../../../api/routes/accounts/sign-in/access-tokens.ts';
import { PasswordHashes } from '../../../api/routes/accounts/sign-in/password-hashes.ts';
import { CardLinks } from '../../../api/routes/billing/card-links.ts';
import { ExecTokens } from '../../../api/routes/sandboxes/exec/tokens.ts';
import { bootstrap } from '../../../db/bootstrap.ts';
import { newId } from '../../../db/core/new-id.ts';
import { query } from '../../../db/core/query.ts';
import { openSecrets, readSecrets } from '../../../db/open-secrets.ts';
import { createOrm, type Orm } from '../../../db/orm.ts';
import {
  countUsesOfFormerKeys,
  isNewestSecretKey,
  readSecretKeys,
  replaceSecretKey,
  resealAll,
} from '../../../db/upkeep/secret-keys.ts';
import { WebhookEndpoint } from '../../../db/webhooks/webhook-endpoint.entity.ts';
import type { SandboxId, UserId, WebhookEndpointId } from '../../../domain/ids.ts';
import { deriveSecrets } from '../../../platform/config/secrets.ts';
import { SettingsError } from '../../../platform/config/settings.ts';
import { freePort } from '../../support/free-port.ts';
import { type TestDatabase, testDatabase } from '../../support/stack.ts';
import { until } from '../../support/until.ts';

const [a, b, c, other] = Array.from({ length: 4 }, () => randomBytes(32).toString('base64')) as [
  string,
  string,
  string,
  string,
];
const key = (secretKey: string, previous?: string) => ({
  PLATFORM_SECRET_KEY: secretKey,
  PLATFORM_PREVIOUS_SECRET_KEY: previous,
});
const sandbox = newId('sandbox') as SandboxId;
const errors: string[] = [];
const logger = { error: (fields: { err: Error }) => errors.push(fields.err.message), info: () => {} };
let database: TestDatabase;
let orm: Orm;

beforeAll(async () => {
  database = await testDatabase();
  orm = await createOrm(database.url, 4);
}, 180_000);
afterAll(async () => {
  await orm.close();
  await database.drop();
});

const known = (settings: ReturnType<typeof key>) => readSecretKeys(orm.em.fork(), settings);
const em = () => orm.em.fork();
/** As if the newest key were older than the time in which it is only read. */
const age = (of = orm) => query(of.em.fork(), "update secret_keys set created_at = created_at - interval '1 minute'");

test('the first key is number 1 and derives the same as without a database; another key is refused', async () => {
  expect(await known(key(a))).toMatchObject({ current: 1, given: [1] });
  const secrets = await readSecrets(orm, key(a));
  expect(secrets.agentToken(sandbox, 1)).toBe(deriveSecrets(key(a)).agentToken(sandbox, 1));
  expect([...secrets.codecKeys.keys()]).toEqual(['derived-1']);
  await expect(known(key(b))).rejects.toThrow(SettingsError);
  await expect(known(key(b))).rejects.toThrow(/PLATFORM_SECRET_KEY: is not the secret key of this database. If it is/);
  await expect(known(key(b, other))).rejects.toThrow(SettingsError);
  await expect(replaceSecretKey(em(), key(b, other))).rejects.toThrow(SettingsError);
  expect(await isNewestSecretKey(em(), key(a))).toBe(true);
});

test('until the key is replaced, the new key is only waiting, and a process without it goes on', async () => {
  expect(await known(key(b, a))).toMatchObject({ current: 1, given: [1] });
  expect(await isNewestSecretKey(em(), key(b, a))).toBe(false);
  const ready = await openSecrets(orm, { ...key(b, a) }, logger);
  const late = await openSecrets(orm, { ...key(a) }, logger);
  try {
    const text = ready.secrets.sealFor(sandbox, { a: 1 });
    expect(late.secrets.openFor(sandbox, text)).toEqual({ a: 1 });
    const token = ready.secrets.agentToken(sandbox, 1);

    const both = await Promise.all([replaceSecretKey(em(), key(b, a)), replaceSecretKey(em(), key(b, a))]);
    expect(both.map(({ number }) => number)).toEqual([2, 2]);

    // At first every process only learns to read what the others are going to write.
    const unused = await known(key(b, a));
    expect([unused.current, [...unused.byNumber.keys()]]).toEqual([1, [2, 1]]);
    expect((await known(key(b))).current).toBe(1);
    await age();
    await until(() => ready.secrets.secretKeyNumber === 2);
    // It reads both and writes the new one.
    const next = ready.secrets.sealFor(sandbox, { b: 2 });
    expect(next).toMatch(/^2\./);
    expect([ready.secrets.openFor(sandbox, text), ready.secrets.openFor(sandbox, next)]).toEqual([{ a: 1 }, { b: 2 }]);
    expect(ready.secrets.agentToken(sandbox, 1)).toBe(token);
    expect(ready.secrets.agentToken(sandbox, 2)).not.toBe(token);
    expect([...ready.secrets.codecKeys.keys()]).toEqual(['derived-2', 'derived-1']);
    expect(ready.secrets.acceptedKeyNumbers).toEqual([2, 1]);

    await until(() => errors.length > 0);
    // It cannot know that the newer key replaced its own.
    expect(errors).toEqual([expect.stringContaining('is not the secret key of this database')]);
    expect(late.secrets.secretKeyNumber).toBe(1);
    expect(late.secrets.openFor(sandbox, text)).toEqual({ a: 1 });
    expect(() => late.secrets.openFor(sandbox, next)).toThrow('This process does not know secret key 2');
  } finally {
    ready.stopFollowing();
    late.stopFollowing();
  }
});

test('signatures of the former key are accepted while the settings have it; a password stays valid', async () => {
  const former = deriveSecrets(key(a));
  const both = await readSecrets(orm, key(b, a));
  const alone = await readSecrets(orm, key(b));
  const later = new Date(Date.now() + 60_000);

  const run = { executionId: 'run', credentialId: 'key-x' };
  const stream = new ExecTokens(former.execTokenKeys).make(sandbox, run, later);
  const opened = [both, alone].map((secrets) => new ExecTokens(secrets.execTokenKeys).open(sandbox, stream));
  expect(opened).toEqual([run, null]);

  const link = { setupIntentId: 'seti_x', credentialId: 'key-x' };
  const token = await new CardLinks(former.cardLinkKeys).make(link, later);
  const links = [both, alone].map((secrets) => new CardLinks(secrets.cardLinkKeys).open(token));
  expect(await Promise.all(links)).toEqual([link, null]);

  const claims = { sessionId: newId('session'), keyId: 'first', startedAt: new Date(), expiresAt: later };
  const userId = newId('user') as UserId;
  const access = await new AccessTokens(former).make(claims as never, userId);
  const accesses = await Promise.all([both, alone].map((secrets) => new AccessTokens(secrets).open(access)));
  expect(accesses).toEqual([{ sessionId: claims.sessionId, keyId: 'first', userId }, null]);
  // The new key signs, and the former one does not open it.
  const fresh = await new AccessTokens(both).make(claims as never, userId);
  expect([await new AccessTokens(alone).open(fresh), await new AccessTokens(former).open(fresh)]).toEqual([
    expect.objectContaining({ userId }),
    null,
  ]);

  const cheap = { algorithm: 2, memoryCost: 64, timeCost: 1, parallelism: 1 };
  const passwords = new PasswordHashes(alone, cheap);
  const hashed = await new PasswordHashes(former, cheap).hash('korrekt pferd');
  const next = await passwords.hash('korrekt pferd');
  expect([hashed.slice(0, 9), next.slice(0, 11)]).toEqual(['$argon2id', '2.$argon2id']);
  for (const each of [hashed, next]) {
    expect(await passwords.verify(each, 'korrekt pferd')).toBe(true);
    expect(await passwords.verify(each, 'korrekt hund')).toBe(false);
  }
});

test('the new key alone reads what every former key made, but accepts signatures only of its own', async () => {
  const secrets = await readSecrets(orm, key(b));
  expect(secrets.agentToken(sandbox, 1)).toBe(deriveSecrets(key(a)).agentToken(sandbox, 1));
  expect(secrets.openFor(sandbox, deriveSecrets(key(a)).sealFor(sandbox, 'old'))).toBe('old');
  expect(secrets.acceptedKeyNumbers).toEqual([2]);
  const [signing, ...more] = secrets.execTokenKeys();
  expect([signing, more]).toEqual([deriveSecrets(key(b)).execTokenKeys()[0], []]);
  await expect(known(key(a))).rejects.toThrow('is not the secret key of this database');

  // The whole table is of no use without the key.
  const rows = JSON.stringify(await query(em(), 'select * from secret_keys'));
  for (const text of [a, b]) expect(rows).not.toContain(text);

  await expect(replaceSecretKey(em(), key(a, b))).rejects.toThrow('was in use before');
  expect(await replaceSecretKey(em(), key(c, b))).toMatchObject({ number: 3 });
  await age();
  const third = await readSecrets(orm, key(c));
  expect([...third.codecKeys.keys()]).toEqual(['derived-3', 'derived-2', 'derived-1']);
  expect([1, 2].map((number) => third.agentToken(sandbox, number))).toEqual(
    [a, b].map((each) => deriveSecrets(key(each)).agentToken(sandbox, 1)),
  );
});

test('a process that starts while the database is away waits for it', async () => {
  const port = await freePort();
  const { hostname, port: target } = new URL(database.tcpUrl);
  const away = await createOrm(Object.assign(new URL(database.tcpUrl), { port: `${port}` }).href, 1);
  errors.length = 0;
  const opening = openSecrets(away, key(c), logger);
  await until(() => errors.length > 0);
  const relay = net.createServer((from) => {
    const to = net.connect(Number(target), hostname);
    for (const [one, other] of [
      [from, to],
      [to, from],
    ] as const) {
      one.on('error', () => other.destroy());
      one.pipe(other);
    }
  });
  relay.listen(port, '127.0.0.1');
  const { secrets, stopFollowing } = await opening;
  stopFollowing();
  expect(secrets.secretKeyNumber).toBe(3);
  await away.close();
  await new Promise((resolve) => relay.close(resolve));
});

test('everything stored is encrypted again in batches; an interrupted run is continued, and a newer text is kept', async () => {
  const fresh = await testDatabase();
  const own = await createOrm(fresh.url, 4);
  try {
    const account = (await bootstrap(own, { email: 'r@example.com', planName: 'hobby', baseImage: 'builtin:base' }))!;
    const before = await readSecrets(own, key(a));
    const fork = own.em.fork();
    const ids = Array.from({ length: 1203 }, () => newId('webhookEndpoint') as WebhookEndpointId);
    for (const endpointId of ids) {
      fork.create(WebhookEndpoint, {
        endpointId,
        accountId: account.accountId,
        url: 'https://example.com',
        eventTypes: ['*'],
        publicKey: 'whpk_x',
        sealedSecret: before.sealWebhookSecret(endpointId, `whsec_${endpointId}`),
        previousSealedSecret: before.sealWebhookSecret(endpointId, `whsec_before-${endpointId}`),
      });
    }
    await fork.flush();
    const [template] = await query<{ template_id: never }>(fork, 'select template_id from templates limit 1');
    const templateId = template!.template_id;
    await query(fork, 'update templates set registry_password = ? where template_id = ?', [
      before.sealRegistryPassword(templateId, 'of the registry'),
      templateId,
    ]);
    await query(fork, "update webhook_endpoints set sealed_secret = 'damaged' where endpoint_id = ?", [ids[7]!]);
    await replaceSecretKey(own.em.fork(), key(b, a));
    await age(own);
    const after = await readSecrets(own, key(b, a));
    // As if an earlier run had ended here.
    await query(fork, 'update webhook_endpoints set sealed_secret = ? where endpoint_id = ?', [
      after.sealWebhookSecret(ids[3]!, 'whsec_newer'),
      ids[3]!,
    ]);
    expect(await resealAll(own.em, after)).toEqual({
      rewritten: {
        'webhook_endpoints.sealed_secret': 1201,
        'webhook_endpoints.previous_sealed_secret': 1203,
        'templates.registry_password': 1,
      },
      unreadable: [`webhook_endpoints.sealed_secret of ${ids[7]}`],
    });
    expect(Object.values((await resealAll(own.em, after)).rewritten)).toEqual([0, 0, 0]);
    // The new key alone, as if there had been no other: every text is its own.
    const only = deriveSecrets(key(b));
    const rows = await query<{ id: WebhookEndpointId; now: string; previous: string }>(
      fork,
      'select endpoint_id as id, sealed_secret as now, previous_sealed_secret as previous from webhook_endpoints',
    );
    for (const { id, now, previous } of rows) {
      if (id === ids[7]) continue;
      const secret = id === ids[3] ? 'whsec_newer' : `whsec_${id}`;
      expect([now, previous].map((text) => text.slice(0, 2))).toEqual(['2.', '2.']);
      expect(only.openWebhookSecret(id, now.slice(2))).toBe(secret);
      expect(only.openWebhookSecret(id, previous.slice(2))).toBe(`whsec_before-${id}`);
    }
    expect(await countUsesOfFormerKeys(own.em, 2)).toEqual({ passwords: 0, sandboxes: 0, webhookKeys: 1203 });
  } finally {
    await own.close();
    await fresh.drop();
  }
}, 120_000);
