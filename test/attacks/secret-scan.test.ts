import { spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { jest } from '@jest/globals';
import proto, { type temporal } from '@temporalio/proto';
import pg from 'pg';
import { Account } from '../../db/accounts/account.entity.ts';
import { createAccount } from '../../db/accounts/accounts.ts';
import { createOrm } from '../../db/orm.ts';
import type { SandboxId } from '../../domain/ids.ts';
import { signQuery } from '../../gateway/signed-query.ts';
import type { PlatformClient, SandboxView } from '../../ops/development/client/platform-client.ts';
import { derivePassword } from '../../ops/local-stack/supervisor/data-folder.ts';
import { runningPlatformEnv } from '../../ops/local-stack/supervisor/running-platform.ts';
import { s3TestServer } from '../../ops/setup/toolchain/locations.mjs';
import { apiUrl } from '../../platform/config/public-urls.ts';
import { deriveSecrets, operatorTokens, type PlatformSecrets } from '../../platform/config/secrets.ts';
import { loadSettings, type Settings } from '../../platform/config/settings.ts';
import { createTemporalClient } from '../../platform/temporal/client.ts';
import { EncryptionCodec } from '../../platform/temporal/payload-codec.ts';
import { payloadsIn } from '../support/history-payloads.ts';
import { IdentityProviderServer } from '../support/identity-provider.ts';
import { MailServer, tokenIn } from '../support/mail-server.ts';
import { RunningPlatform } from '../support/running-platform.ts';
import { S3Server } from '../support/s3-server.ts';
import { TemporaryCredentials } from '../support/temporary-credentials.ts';
import { until } from '../support/until.ts';
import { ProcessWatch, type SeenProcess } from './process-watch.ts';
import { SecretSearch } from './secret-search.ts';

jest.setTimeout(300_000);

/**
 * The whole platform as separate processes, in which keys, sandboxes, commands and mounts are made and ended, with
 * callers who put secrets in wrong places. Afterwards no secret may be anywhere except with its owner.
 */
const turnSecret = 'secret-shared-with-the-turn-server';
const proxyPassword = 'password-of-the-proxy';
let platform: RunningPlatform;
let mails: MailServer;
let identities: IdentityProviderServer;
/** Contains the secret with which the platform authenticates at the identity provider. */
let clientDir: string;
let s3: S3Server;
let temporary: TemporaryCredentials;
let api: PlatformClient;
let settings: Settings;
let secrets: PlatformSecrets;
let seen: SeenProcess[];
let sandbox: SandboxView;
const sandboxIds: SandboxId[] = [];

/** The secrets of the platform by their names. */
const ofPlatform: Record<string, string> = { 'the TURN secret': turnSecret, "the proxy's password": proxyPassword };
const ofCallers: Record<string, string> = {};
const variable = 'value-of-a-variable-of-the-sandbox';
const ofSandbox = {
  'a variable of the sandbox': variable,
  'a variable of a command': 'value-of-a-variable-of-a-command',
  'a word of a command': 'a-word-that-only-the-command-knows',
};
/** The account whose users sign in through the identity provider. */
const provided = 'acc-provided';
const all = () => ({ ...ofPlatform, ...ofCallers, ...ofSandbox });
const idempotent = { 'idempotency-key': 'shown-once' };
const small = { cpu_count: 1, memory_mb: 256, storage_gb: 1 };

beforeAll(async () => {
  s3 = await S3Server.start('data');
  temporary = await TemporaryCredentials.before(s3);
  mails = await MailServer.start();
  ofPlatform["the mail server's password"] = mails.password;
  identities = await IdentityProviderServer.listen();
  clientDir = mkdtempSync(path.join(os.tmpdir(), 'sandbox-platform-oidc-'));
  const clientSecret = `secret-of-the-client-${randomBytes(12).toString('hex')}`;
  ofPlatform["the OpenID Connect client's secret"] = clientSecret;
  writeFileSync(path.join(clientDir, 'secret'), clientSecret, { mode: 0o600 });
  const issuer = {
    ...{ id: 'corp', issuer: identities.issuer, client_id: 'platform', label: 'Example Corp', account_id: provided },
    ...{ client_secret_file: path.join(clientDir, 'secret'), domains: ['corp.example'], create_users: true },
  };
  platform = new RunningPlatform({
    PLATFORM_OIDC_ISSUERS: JSON.stringify([issuer]),
    PLATFORM_LOG_LEVEL: 'debug',
    PLATFORM_WARM_POOL_SIZE: '1',
    PLATFORM_TURN_SECRET: turnSecret,
    PLATFORM_TURN_PUBLIC_HOST: '203.0.113.250',
    PLATFORM_SANDBOX_PROXY_URL: `http://sandboxes:${proxyPassword}@203.0.113.251:3128`,
    SMTP_URL: mails.url,
  });
  await platform.start();
  const watch = new ProcessWatch();
  api = platform.client();
  settings = loadSettings(runningPlatformEnv(platform.dataDir, {}));
  secrets = deriveSecrets(settings);
  const { PLATFORM_SECRET_KEY: key } = settings;
  for (const purpose of ['postgres', 'postgres platform', 'postgres platform runtime', 'postgres temporal']) {
    ofPlatform[`the password of ${purpose}`] = derivePassword(key, purpose);
  }
  ofPlatform["the platform's key"] = key;
  ofPlatform['a key for payloads'] = [...secrets.codecKeys.values()][0]!.toString('base64');
  ofPlatform["the codec server's token"] = operatorTokens({ PLATFORM_SECRET_KEY: key }).codecAccess[0]!;
  ofPlatform['the key of the CA'] = readFileSync(path.join(platform.dataDir, 'ca/ca-key.pem'), 'utf8').split('\n')[1]!;
  for (const [of, credentials] of Object.entries({ storage: s3, 'temporary storage': temporary })) {
    ofCallers[`the access key of ${of}`] = credentials.accessKey;
    ofCallers[`the secret key of ${of}`] = credentials.secretKey;
  }
  ofCallers['the session token'] = temporary.sessionToken;
  ofCallers['a wrong secret key'] = 'a-secret-key-that-is-wrong';
  await makeAccounts();
  await signPeopleIn();
  await signInThroughProvider(clientSecret);
  await subscribe();
  await liveASandbox();
  await endSandboxes();
  await refuseRows();
  await misplaceSecrets();
  seen = await watch.stop();
}, 400_000);

afterAll(async () => {
  await platform.stop();
  await platform.hostRemains();
  platform.removeData();
  await temporary?.stop();
  await mails?.stop();
  await identities?.stop();
  rmSync(clientDir, { recursive: true, force: true });
  await s3?.stop();
}, 300_000);

async function made<Data = SandboxView>(method: string, url: string, body?: unknown, headers = {}): Promise<Data> {
  const reply = await api.request<Data>(method, url, body, headers);
  if (reply.status >= 300) throw new Error(`${url}: ${reply.status} ${JSON.stringify(reply.body)}`);
  return reply.body.data ?? (reply.body as Data);
}

async function makeAccounts(): Promise<void> {
  ofCallers["the root's API key"] = platform.env.PLATFORM_API_KEY!;
  const { api_key: key } = await made<{ api_key: string }>('POST', '/v1/api-keys', { name: 'shown once' }, idempotent);
  ofCallers['an API key'] = key;
  const orm = await createOrm(settings.DATABASE_URL, 1);
  const wanted = { email: 'stranger@example.com', displayName: 'Stranger', planName: 'pro', role: 'user' as const };
  const { apiKey } = await orm.em.fork().transactional((em) => createAccount(em, wanted));
  const em = orm.em.fork();
  em.create(Account, { accountId: provided, email: 'it@corp.example', displayName: 'Corp', planName: 'pro' });
  await em.flush();
  await orm.close();
  ofCallers["a stranger's API key"] = apiKey;
}

/** Uses passwords, links in mails and access tokens, correctly and incorrectly. */
async function signPeopleIn(): Promise<void> {
  const [password, next, wrong] = ['korrekt pferd batterie', 'batterie heftklammer', 'ein anderes passwort'];
  Object.assign(ofCallers, { 'a password': password, 'the next password': next, 'a wrong password': wrong });
  const invited = 'invited@example.com';
  await made('POST', '/v1/user-management/users', { email: invited, username: 'guest', role: 'user' });
  const token = tokenIn(await mails.take(invited));
  ofCallers['the token of an invitation'] = token;
  const call = async (where: string, body?: object, bearer?: string) => {
    const headers = { 'content-type': 'application/json', ...(bearer && { authorization: `Bearer ${bearer}` }) };
    const init = body && { method: 'POST', headers, body: JSON.stringify(body) };
    const reply = await fetch(`${settings.PLATFORM_URL}${where}`, { redirect: 'manual', ...(init ?? { headers }) });
    return { status: reply.status, text: await reply.text() };
  };
  const signIn = (given: string, email = invited) => call('/v1/auth/sign-in', { email, password: given });
  const signInForToken = async (given: string) => JSON.parse((await signIn(given)).text).data.access_token as string;
  const setPassword = { token, new_password: password };
  const statuses = [
    await call(`/account/reset-password?token=${token}`),
    await call('/v1/auth/reset-password', { ...setPassword, new_password: 'short' }),
    await call('/v1/auth/reset-password', setPassword),
    await call('/v1/auth/reset-password', setPassword),
    await signIn(wrong),
    await signIn(password, password),
    await call('/v1/auth/sign-in', { email: invited, [password]: password, password: [password] }),
    await call('/v1/auth/forgot-password', { email: invited }),
  ].map(({ status }) => status);
  expect(statuses).toEqual([302, 400, 200, 400, 401, 401, 400, 202]);
  ofCallers['the token of a reset'] = tokenIn(await mails.take(invited));
  const first = await signInForToken(password);
  ofCallers['an access token'] = first;
  const session = await fetch(`${settings.PLATFORM_URL}/v1/auth/session`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ email: invited, password }),
  });
  const [cookie = ''] = session.headers.getSetCookie();
  ofCallers['the cookie of a browser'] = cookie.split(/[=;]/)[1]!;
  const headers = { cookie: cookie.split(';')[0]!, 'sec-fetch-site': 'same-origin' };
  const asked = await fetch(`${settings.PLATFORM_URL}/v1/auth/session`, { headers });
  expect([session.status, asked.status]).toEqual([200, 200]);
  const change = { current_password: password, new_password: next };
  const changed = await call('/v1/user-management/change-password', change, first);
  expect([changed.status, (await call('/v1/users/me', undefined, first)).status]).toEqual([200, 401]);
  const second = await signInForToken(next);
  ofCallers['another access token'] = second;
  await call(`/v1/sandboxes/sbx-none/exec/stream?token=${second}`);
  await call(`/v1/users/me?token=${second}&password=${encodeURIComponent(next)}`, undefined, `${second}x`);
  const current = 'root@platform.localhost';
  const addresses = { current_email: current, new_email: 'new-root@example.com' };
  await made('POST', '/v1/user-management/account/email-change-request', addresses);
  for (const [which, address] of Object.entries(addresses)) {
    ofCallers[`the token to confirm the ${which}`] = tokenIn(await mails.take(address));
  }
  const confirmed = { token: ofCallers['the token to confirm the new_email'] };
  expect((await call('/v1/user-management/account/confirm-email-change', confirmed)).status).toBe(200);
}

/** Sign-ins through an identity provider: with its answer, with a forged one, and with another person's. */
async function signInThroughProvider(clientSecret: string): Promise<void> {
  const redirectUri = `${apiUrl(settings)}/v1/auth/oidc/corp/callback`;
  await identities.serve({ clients: [{ clientId: 'platform', clientSecret, redirectUri }] });
  const begin = async (name: string) => {
    const reply = await fetch(`${settings.PLATFORM_URL}/v1/auth/oidc/corp/start`, { redirect: 'manual' });
    const [cookie = ''] = reply.headers.getSetCookie().map((set) => set.split(';')[0]!);
    ofCallers[`the cookie of a sign-in of ${name}`] = cookie.slice(cookie.indexOf('=') + 1);
    const person = { sub: name, email: `${name}@corp.example`, email_verified: true };
    const back = await identities.signIn(reply.headers.get('location')!, person);
    ofCallers[`the code of a sign-in of ${name}`] = back.searchParams.get('code')!;
    return { cookie, back };
  };
  const finish = (back: URL, cookie: string) => fetch(back, { headers: { cookie }, redirect: 'manual' });
  const [ada, eve] = [await begin('ada'), await begin('eve')];
  const signedIn = await finish(ada.back, ada.cookie);
  const forged = new URL(eve.back);
  forged.searchParams.set('code', `${eve.back.searchParams.get('code')}x`);
  const statuses = [
    signedIn.status,
    (await finish(ada.back, ada.cookie)).status,
    (await finish(eve.back, ada.cookie)).status,
    (await finish(forged, eve.cookie)).status,
  ];
  expect(statuses).toEqual([200, 400, 400, 401]);
  const { data } = (await signedIn.json()) as { data: { access_token: string } };
  ofCallers['an access token of an identity'] = data.access_token;
}

/** Subscribes an endpoint that does not exist, so that workflows retry. */
async function subscribe(): Promise<void> {
  const bytes = Buffer.from('a-secret-that-signs-webhooks').toString('base64');
  ofCallers["a webhook's secret"] = bytes;
  const wanted = { url: 'http://127.0.0.1:2/', event_types: ['*'], secret: `whsec_${bytes}` };
  const { endpoint_id: id } = await made<{ endpoint_id: string }>('POST', '/v1/webhooks', wanted, {
    'idempotency-key': 'webhook',
  });
  await made('POST', `/v1/webhooks/${id}/roll-secret`, { secret: wanted.secret });
}

async function create(wanted: Record<string, unknown>): Promise<SandboxView> {
  const view = await made('POST', '/v1/sandboxes', { ...small, ...wanted });
  sandboxIds.push(view.sandbox_id);
  ofCallers[`the access token of ${sandboxIds.length}`] = view.envd_access_token;
  ofPlatform[`the platform's token of ${sandboxIds.length}`] = secrets.platformToken(view.sandbox_id, 1);
  return view;
}

const shortLived = () => {
  const { endpoint, accessKey, secretKey, sessionToken } = temporary;
  return s3.mount({
    mount_point: '/mnt/short',
    endpoint,
    access_key: accessKey,
    secret_key: secretKey,
    session_token: sessionToken,
  });
};

/** Makes a sandbox with all kinds of secrets, which continues to run. */
async function liveASandbox(): Promise<void> {
  sandbox = await create({
    env_vars: { TOKEN: variable },
    custom_ports: [
      { port: 7000, name: 'call', protocol: 'WEBRTC' },
      { port: 8000, name: 'web', is_protected: true },
    ],
    object_storage: [s3.mount(), shortLived()],
  });
  const url = `/v1/sandboxes/${sandbox.sandbox_id}`;
  const turn = await made<{ credential: string }>('GET', `${url}/webrtc-turn-credential`);
  ofCallers['a TURN credential'] = turn.credential;
  const { stream_path } = await made<{ stream_path: string }>('POST', `${url}/exec`, {
    command: `touch /mnt/data/a /mnt/short/b; : ${ofSandbox['a word of a command']}; sleep 1; printenv TOKEN OWN`,
    env: { OWN: ofSandbox['a variable of a command'] },
  });
  ofCallers['the token of a stream'] = new URL(stream_path, settings.PLATFORM_URL).searchParams.get('token')!;
  const agent = platform.agent(sandbox);
  await agent.start('sleep', ['300']);
  const opened = { sandboxId: sandbox.sandbox_id, port: 8000, path: '/', operation: 'read' } as const;
  const signature = signQuery(opened, sandbox.envd_access_token, null);
  ofCallers['a signature'] = signature;
  const signed = await agent.request(`/?signature=${encodeURIComponent(signature)}`, { port: 8000 });
  expect(signed.status).toBe(502);
  agent.close();
  const stream = await (await fetch(`${settings.PLATFORM_URL}${stream_path}`)).text();
  expect(stream).toContain(Buffer.from(`${variable}\n${ofSandbox['a variable of a command']}\n`).toString('base64'));
  await made('POST', `${url}/pause`, {});
  await made('POST', `${url}/resume`, { object_storage: { mounts: [shortLived()] } });
  expect((await api.sandbox(sandbox.sandbox_id)).object_storage).toMatchObject([
    { state: 'active' },
    { state: 'active', short_lived: true },
  ]);
}

async function endSandboxes(): Promise<void> {
  const refused = await create({ object_storage: [s3.mount({ secret_key: ofCallers['a wrong secret key'] })] });
  expect(refused).toMatchObject({ status: 'failed', reason: 'object_storage_mount_failed' });
  const { sandbox_id: id } = await create({ env_vars: { TOKEN: variable } });
  await made('POST', `/v1/sandboxes/${id}/terminate`);
  await api.untilStatus(id, 'terminated');
  await made('DELETE', `/v1/sandboxes/${id}`);
}

/** Simulates a bug of the platform: Postgres refuses its rows, and the errors would contain their values. */
async function refuseRows(): Promise<void> {
  const { sandbox_id: id } = await create({ env_vars: { TOKEN: variable } });
  const refusal = "check (name <> 'refused' and status <> 'terminated') not valid";
  await withDatabase('platform', (client) => client.query(`alter table sandboxes add constraint never ${refusal}`));
  const refused = { ...small, name: 'refused', env_vars: { TOKEN: variable } };
  expect((await api.request('POST', '/v1/sandboxes', refused)).status).toBe(500);
  await made('POST', `/v1/sandboxes/${id}/terminate`);
  for (const name of ['api', 'worker', 'postgres']) await until(() => /CheckConstraint|violates/.test(readLog(name)));
  await withDatabase('platform', (client) => client.query('alter table sandboxes drop constraint never'));
  await api.untilStatus(id, 'terminated');
}

const readLog = (name: string) => readFileSync(path.join(platform.dataDir, 'logs', `${name}.log`), 'latin1');

/** Connects as the superuser of the embedded Postgres. */
async function withDatabase<Result>(name: string, work: (client: pg.Client) => Promise<Result>): Promise<Result> {
  const url = new URL(settings.DATABASE_URL);
  const password = ofPlatform['the password of postgres']!;
  const client = new pg.Client({ connectionString: `postgres://postgres:${password}@${url.host}/${name}` });
  await client.connect();
  try {
    return await work(client);
  } finally {
    await client.end();
  }
}

/** Puts secrets in wrong places, as callers do by mistake. */
async function misplaceSecrets(): Promise<void> {
  const key = ofCallers['an API key']!;
  const url = `/v1/sandboxes/${sandbox.sandbox_id}`;
  const plain = (where: string, init?: RequestInit) => fetch(`${settings.PLATFORM_URL}${where}`, init);
  const mount = { ...s3.mount(), mount_point: '/proc' };
  const statuses = [
    await api.request('POST', '/v1/sandboxes', { ...small, object_storage: [mount] }),
    await api.request('POST', '/v1/sandboxes', { ...small, object_storage: [{ ...mount, [s3.secretKey]: 1 }] }),
    await api.request('POST', '/v1/sandboxes', { ...small, env_vars: { [`a=b ${variable}`]: variable } }),
    await api.request('POST', `${url}/exec`, { command: 7, env: { OWN: ofSandbox['a variable of a command'] } }),
    await api.request('POST', '/v1/api-keys', { name: key, key: 'x'.repeat(2_000_000) }),
    await platform.client(`${key}x`).request('GET', '/v1/users/me'),
    await platform.client(key).request('GET', `/v1/sandboxes?search=${key}`),
    await plain('/v1/sandboxes', { method: 'POST', headers: { 'x-api-key': key }, body: `{"key": "${s3.secretKey}",` }),
    await plain('/v1/users/me', { headers: { authorization: `Bearer ${key}x` } }),
    await plain(`/v1/users/me?api_key=${key}&token=${sandbox.envd_access_token}`),
    await plain(`${url}/exec/stream?run=x&token=${ofCallers['the token of a stream']}`),
  ].map(({ status }) => status);
  expect(statuses).toEqual([400, 400, 400, 400, 413, 401, 200, expect.any(Number), 401, 401, expect.any(Number)]);
  const agent = platform.agent(sandbox, null);
  for (const where of ['/health', '/download/etc/hosts', '/nowhere']) {
    await agent.request(`${where}?token=${sandbox.envd_access_token}`, { headers: { cookie: `key=${key}` } });
  }
  agent.close();
}

test('the search finds secrets in every encoding', () => {
  const search = new SecretSearch(ofCallers);
  const secret = ofCallers['the secret key of storage']!;
  for (const text of [
    `x${secret}x`,
    `?key=${encodeURIComponent(secret)}`,
    `\\x${Buffer.from(`a${secret}`).toString('hex')}`,
    ...['', 'a', 'ab', 'abc'].map((before) => Buffer.from(`${before}${secret}${before}`).toString('base64')),
  ]) {
    expect([text, search.in(text)]).toEqual([text, ['the secret key of storage']]);
  }
  expect(search.in(secret.slice(1))).toEqual([]);
});

test('no secret is in a log of any process', () => {
  const logs = readdirSync(path.join(platform.dataDir, 'logs')).map((name) => path.basename(name, '.log'));
  expect(logs).toEqual(
    expect.arrayContaining(['api', 'gateway', 'host', 'worker', 'temporal-server', 'temporal-web-ui', 'postgres']),
  );
  const search = new SecretSearch(all());
  expect(logs.map((name) => [name, search.in(readLog(name))])).toEqual(logs.map((name) => [name, []]));
  expect(readLog('api').split('\n').length).toBeGreaterThan(20);
  // The first account's key is shown once.
  expect(search.in(platform.output)).toEqual(["the root's API key"]);
  expect(search.in(platform.output.replace(/^ *API key .*$/m, ''))).toEqual([]);
});

test('no secret is in an argument of any process, nor in the environment of one that it does not belong to', () => {
  const commands = seen.map(({ commandLine }) => commandLine.replaceAll('\0', ' '));
  for (const program of [
    /shim\.pl/,
    /hold-mount\.pl/,
    /^s3fs /,
    /worker\/host\.ts/,
    /postgres.* -D /,
    /temporal-server/,
  ]) {
    expect([program, commands.some((words) => program.test(words))]).toEqual([program, true]);
  }
  const search = new SecretSearch(all());
  const found = { arguments: new Set<string>(), environment: new Set<string>() };
  const hosts = seen.filter(({ commandLine }) => commandLine.includes('worker/host.ts'));
  expect(hosts.flatMap(({ environment }) => search.in(environment))).toContain("the platform's key");
  for (const each of seen) {
    const words = each.commandLine.replaceAll('\0', ' ').slice(0, 150);
    for (const what of search.in(each.commandLine)) {
      if (!(isInside(each) && what === 'a word of a command')) found.arguments.add(`${what}: ${words}`);
    }
    for (const what of search.in(each.environment)) {
      if (!mayHold(each, what)) found.environment.add(`${what}: ${words}`);
    }
  }
  expect([...found.arguments]).toEqual([]);
  expect([...found.environment]).toEqual([]);
});

const isInside = ({ uid }: SeenProcess) => uid >= 0x7000_0000;

/** Settings are in the environment of the platform's own processes, a sandbox's variables in that of its processes. */
function mayHold(process: SeenProcess, what: string): boolean {
  const settingsOfPlatform = [
    "the platform's key",
    'the password of postgres platform runtime',
    "the mail server's password",
    'the TURN secret',
    "the proxy's password",
  ];
  if (isInside(process)) return what in ofSandbox || what === "the proxy's password";
  if (
    /\b(ops\/local-stack\/start|api\/server|gateway\/(server|serving-process)|worker\/control|worker\/host)\.ts\0/.test(
      process.commandLine,
    )
  ) {
    return settingsOfPlatform.includes(what);
  }
  // The storage is not a part of the platform.
  return process.commandLine.includes(s3TestServer().program) && what.endsWith('key of storage');
}

test('no secret rests in a database but what a sandbox needs to start again', async () => {
  const search = new SecretSearch(all());
  const found = new Set<string>();
  let rowsRead = 0;
  for (const database of ['platform', 'temporal', 'temporal_visibility']) {
    await withDatabase(database, async (client) => {
      const { rows: tables } = await client.query(
        "select table_schema || '.' || table_name as name from information_schema.tables where table_type = 'BASE TABLE' and table_schema not in ('pg_catalog', 'information_schema')",
      );
      expect(tables.length).toBeGreaterThan(1);
      for (const { name } of tables) {
        const { rows } = await client.query(`select row_to_json(t)::text as row from ${name} t`);
        rowsRead += rows.length;
        for (const what of search.in(rows.map(({ row }) => row).join('\n'))) found.add(`${name}: ${what}`);
      }
    });
  }
  expect(rowsRead).toBeGreaterThan(100);
  expect([...found]).toEqual(['public.sandboxes: a variable of the sandbox']);
});

type History = temporal.api.history.v1.IHistory;

/** The histories of all workflows. */
async function histories(): Promise<{ workflowId: string; history: History }[]> {
  const { workflowService, connection } = createTemporalClient(settings, secrets);
  try {
    const namespace = settings.TEMPORAL_NAMESPACE;
    const { executions } = await workflowService.listWorkflowExecutions({ namespace, pageSize: 1000 });
    return await Promise.all(
      executions.map(async ({ execution }) => {
        const reply = await workflowService.getWorkflowExecutionHistory({ namespace, execution: execution! });
        expect(reply.nextPageToken).toHaveLength(0);
        return { workflowId: execution!.workflowId!, history: reply.history! };
      }),
    );
  } finally {
    await connection.close();
  }
}

/** The id of a request, as the headers of messages and activities have it. Logs show it, too. */
const requestIdNote = /^"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"$/;

/** The time until which an update may be accepted, in its header. */
const expiryNote = /^\d{13}$/;

/** Records of Temporal's own library: the name and times of a local activity, the name of a patch. */
const libraryNotes =
  /^\{"seq":\d+,"attempt":\d+,"activity_id":"\d+","activity_type":"\w+","complete_time":|^\{"id":"[a-z-]+","deprecated":(?:true|false)\}$/;

test('nothing of a workflow history can be read as it is stored', async () => {
  const stored = await histories();
  expect(stored.map(({ workflowId }) => workflowId)).toEqual(expect.arrayContaining(sandboxIds));
  const search = new SecretSearch(all());
  for (const { workflowId, history } of stored) {
    const bytes = Buffer.from(proto.temporal.api.history.v1.History.encode(history).finish()).toString('latin1');
    expect([workflowId, search.in(bytes)]).toEqual([workflowId, []]);
    const open = payloadsIn(history)
      .filter(({ metadata }) => Buffer.from(metadata!.encoding!).toString() !== 'binary/encrypted')
      .map(({ data }) => Buffer.from(data!).toString());
    const notes = [libraryNotes, requestIdNote, expiryNote];
    const others = open.filter((text) => !notes.some((note) => note.test(text)));
    expect([workflowId, others]).toEqual([workflowId, []]);
  }
});

test('what operators can decode of a history holds no key and no token, and storage credentials stay closed', async () => {
  const codec = new EncryptionCodec(secrets);
  const search = new SecretSearch(all());
  let opened = '';
  for (const { workflowId, history } of await histories()) {
    const payloads = await codec.decode(payloadsIn(history));
    const text = payloads.map(({ data }) => Buffer.from(data ?? []).toString()).join('\n');
    if (workflowId === sandbox.sandbox_id) {
      expect(text).toContain(workflowId);
      // Decrypts as the host does, which has an additional key.
      for (const [, sealed] of text.matchAll(/"([A-Za-z0-9+/=]{80,})"/g)) {
        opened += JSON.stringify(secrets.openFor(workflowId, sealed!));
      }
    }
    expect([workflowId, search.in(text)]).toEqual([workflowId, []]);
  }
  expect(search.in(opened).sort()).toEqual(
    Object.keys(ofCallers)
      .filter((what) => /storage|session/.test(what))
      .sort(),
  );
});

test('files with a secret are few, and their owner alone may read them', () => {
  const { patterns } = new SecretSearch({ ...ofPlatform, ...ofCallers });
  const [shim] = readFileSync(path.join(platform.dataDir, 'oci/sandboxes', sandbox.sandbox_id, 'pids'), 'latin1').split(
    ' ',
  );
  // Disks are searched by their files, because they are large as a whole.
  const disk = `/proc/${shim}/root/mnt/disk`;
  expect(readdirSync(disk)).toContain('upper');
  const { stdout, stderr } = spawnSync('grep', ['-rlaF', '--exclude=*.ext4', '-f', '-', platform.dataDir, disk], {
    input: patterns.join('\n'),
    encoding: 'utf8',
  });
  // Files come and go in it, and even the host's root may not enter the sandbox's mount of a bucket.
  const expected = new RegExp(`No such file|${disk}/storage: Permission denied`);
  expect(stderr.split('\n').filter((line) => line && !expected.test(line))).toEqual([]);
  const holding = stdout.trim().split('\n');
  expect(holding.map((file) => path.relative(platform.dataDir, file)).sort()).toEqual([
    'ca/ca-key.pem',
    'platform.env',
    'secret-key',
    'settings.json',
    'temporal-web-ui/embedded.yaml',
    'temporal/embedded.yaml',
  ]);
  const everything = readdirSync(platform.dataDir, { recursive: true, encoding: 'utf8' });
  const disks = everything
    .filter((file) => file.endsWith('disk.ext4'))
    .map((file) => path.join(platform.dataDir, file));
  expect(disks.length).toBeGreaterThan(0);
  for (const file of [...holding, ...disks]) expect([file, statSync(file).mode & 0o777]).toEqual([file, 0o600]);
});

const read = async (where: string, key: string) =>
  (await fetch(`${settings.PLATFORM_URL}${where}`, { headers: { 'x-api-key': key } })).text();

test('no reply to another account contains a secret', async () => {
  const search = new SecretSearch({ ...all(), "a stranger's API key": 'not looked for' });
  const below = [
    '',
    '/status',
    '/ports',
    '/stats',
    '/metrics',
    '/network-proxy',
    '/webrtc-turn-credential',
    '/exec/active',
  ];
  for (const where of [
    ...['/v1/sandboxes', '/v1/api-keys', '/v1/templates', '/v1/projects', '/v1/users/me', '/metrics', '/openapi.json'],
    ...sandboxIds.flatMap((id) => below.map((each) => `/v1/sandboxes/${id}${each}`)),
  ]) {
    expect([where, search.in(await read(where, ofCallers["a stranger's API key"]!))]).toEqual([where, []]);
  }
  expect(await read('/v1/users/me', ofCallers["a stranger's API key"]!)).toContain('stranger@example.com');
});

test('no reply to their owner repeats keys or contains secrets of the platform', async () => {
  const { 'the access token of 1': _, ...others } = ofCallers;
  const { "the proxy's password": __, ...platformAlone } = ofPlatform;
  const search = new SecretSearch({ ...platformAlone, ...others });
  const url = `/v1/sandboxes/${sandbox.sandbox_id}`;
  for (const where of ['/v1/api-keys', '/v1/users/me', '/v1/projects', url, `${url}/exec/active`, '/metrics']) {
    expect([where, search.in(await read(where, ofCallers["the root's API key"]!))]).toEqual([where, []]);
  }
  const again = await api.request('POST', '/v1/api-keys', { name: 'shown once' }, idempotent);
  expect([again.status, search.in(JSON.stringify(again.body))]).toEqual([201, []]);
});
