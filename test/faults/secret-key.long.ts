import { createHmac, createPublicKey, randomBytes, verify } from 'node:crypto';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { SandboxView } from '../../ops/development/client/platform-client.ts';
import { runOperator } from '../support/operator.ts';
import { RunningPlatform } from '../support/running-platform.ts';
import { until } from '../support/until.ts';
import { type Received, WebhookReceiver } from '../support/webhook-receiver.ts';

/** A platform whose secret key is replaced: each start is with other keys on the same data. */
const [a, b, c] = Array.from({ length: 3 }, () => randomBytes(32).toString('base64')) as [string, string, string];
const first = new RunningPlatform({ PLATFORM_SECRET_KEY: a });
const { dataDir } = first;
let platform = first;
let receiver: WebhookReceiver;
const small = { cpu_count: 1, memory_mb: 256, storage_gb: 1, timeout: 3600 };
const password = 'korrekt pferd batterie';
const webhookSecret = `whsec_${randomBytes(32).toString('base64')}`;

interface Webhook {
  endpoint_id: string;
  public_key: string;
}
let running: SandboxView;
let paused: SandboxView;
let webhook: Webhook;
let email: string;
/** An access token that was signed with the first key. */
let sessionOfFirst: string;

beforeAll(async () => {
  receiver = await WebhookReceiver.start();
  await first.start();
}, 180_000);
afterAll(async () => {
  await platform.stop();
  await receiver.stop();
  const remains = await platform.hostRemains();
  platform.removeData();
  expect(remains).toEqual([]);
}, 180_000);

async function restart(secretKey: string, previous?: string): Promise<void> {
  await platform.stop();
  platform = new RunningPlatform(
    { PLATFORM_SECRET_KEY: secretKey, PLATFORM_PREVIOUS_SECRET_KEY: previous ?? '' },
    dataDir,
  );
  await platform.start();
}

/** A start with these keys fails, before any process uses the data. @returns its output */
async function refusal(secretKey: string): Promise<string> {
  await platform.stop();
  platform = new RunningPlatform({ PLATFORM_SECRET_KEY: secretKey }, dataDir);
  await expect(platform.start()).rejects.toThrow('npm start did not get ready');
  await platform.stop();
  return platform.output;
}

const output = async (sandbox: SandboxView, command: string) => {
  const { body } = await platform
    .client()
    .request('POST', `/v1/sandboxes/${sandbox.sandbox_id}/exec`, { command, wait: true });
  return (body as unknown as { stdout: string }).stdout;
};

async function signIn(): Promise<string> {
  const { status, body } = await platform
    .client(null)
    .request<{ access_token: string }>('POST', '/v1/auth/sign-in', { email, password });
  const { access_token: token } = { ...body, ...body.data } as unknown as { access_token: string };
  expect([status, token]).toEqual([200, expect.stringMatching(/^eyJ/)]);
  return token;
}

const statusWith = async (token: string) =>
  (await platform.client(null).request('GET', '/v1/users/me', undefined, { Authorization: `Bearer ${token}` })).status;

function isSigned({ id, headers, body }: Received, publicKey: string): boolean {
  const content = `${id}.${headers['webhook-timestamp']}.${body}`;
  const der = Buffer.concat([
    Buffer.from('302a300506032b6570032100', 'hex'),
    Buffer.from(publicKey.slice('whpk_'.length), 'base64'),
  ]);
  const key = createPublicKey({ key: der, format: 'der', type: 'spki' });
  const hmac = createHmac('sha256', Buffer.from(webhookSecret.slice('whsec_'.length), 'base64')).update(content);
  const signatures = headers['webhook-signature']!.split(' ');
  return (
    signatures.includes(`v1,${hmac.digest('base64')}`) &&
    signatures.some(
      (each) =>
        each.startsWith('v1a,') && verify(null, Buffer.from(content), key, Buffer.from(each.slice(4), 'base64')),
    )
  );
}

/** Everything that was made with any key works: API key, sandboxes and their tokens, passwords, webhooks, workflows. */
async function everythingWorks(): Promise<void> {
  const api = platform.client();
  expect((await api.request('GET', '/v1/users/me')).status).toBe(200);
  const now = await api.sandbox(running.sandbox_id);
  expect([now.status, now.envd_access_token]).toEqual(['running', running.envd_access_token]);
  expect(await output(running, 'cat /proc/sys/kernel/hostname; echo $GREETING')).toContain('of the first key');
  const agent = platform.agent(running);
  await agent.upload('/root/note', 'with the token of the first key');
  agent.close();
  expect(await output(running, 'cat /root/note')).toBe('with the token of the first key');

  await api.request('POST', `/v1/sandboxes/${paused.sandbox_id}/resume`, {});
  expect((await api.untilStatus(paused.sandbox_id, 'running')).envd_access_token).toBe(paused.envd_access_token);
  await api.request('POST', `/v1/sandboxes/${paused.sandbox_id}/pause`, {});
  await api.untilStatus(paused.sandbox_id, 'paused');

  expect(await statusWith(await signIn())).toBe(200);
  const before = receiver.received.length;
  const made = await api.createSandbox(small);
  expect(await output(made, 'echo made')).toBe('made\n');
  await api.deleteSandbox(made.sandbox_id);
  await until(() => receiver.received.length > before);
  expect(receiver.received.slice(before).every((each) => isSigned(each, webhook.public_key))).toBe(true);
}

test('a platform with its first key', async () => {
  const api = platform.client();
  webhook = (
    await api.request<Webhook>('POST', '/v1/webhooks', {
      ...{ url: receiver.url, event_types: ['sandbox.*'], scope: 'account', secret: webhookSecret },
    })
  ).body.data;
  running = await api.createSandbox({ ...small, env_vars: { GREETING: 'of the first key' } });
  paused = await api.createSandbox(small);
  await api.request('POST', `/v1/sandboxes/${paused.sandbox_id}/pause`, {});
  email = (await api.request<{ email: string }>('GET', '/v1/users/me')).body.data.email;
  const { link } = JSON.parse((await runOperator('admin', dataDir, ['reset-password', '--email', email])).stdout);
  const token = new URL(link).searchParams.get('token');
  const set = await platform.client(null).request('POST', '/v1/auth/reset-password', { token, new_password: password });
  expect(set.status).toBeLessThan(300);
  await everythingWorks();
}, 300_000);

test('another key alone is refused at the start, by name', async () => {
  const text = await refusal(b);
  expect(text).toContain('PLATFORM_SECRET_KEY: is not the secret key of the database in');
  expect(text).toContain('rotate-secret-key');
  for (const each of [a, b]) expect(text).not.toContain(each);
}, 300_000);

test('with the new and the former key everything works, and sessions go on; then the new key alone is still refused', async () => {
  await restart(a);
  const session = await signIn();
  await restart(b, a);
  expect(await statusWith(session)).toBe(200);
  await everythingWorks();
  expect(await refusal(b)).toContain('PLATFORM_SECRET_KEY: is not the secret key of this database');
}, 400_000);

test('the command replaces the key of a running platform, and may be repeated', async () => {
  await restart(b, a);
  sessionOfFirst = await signIn();
  const early = await runOperator('admin', dataDir, ['backup', '--to', path.join(dataDir, 'none')]);
  expect(early).toMatchObject({ code: 1, stderr: expect.stringContaining('run rotate-secret-key first') });

  const run = await runOperator('admin', dataDir, ['rotate-secret-key']);
  expect(run).toMatchObject({ code: 0 });
  expect(JSON.parse(run.stdout)).toEqual({
    secretKey: 2,
    rewritten: {
      'webhook_endpoints.sealed_secret': 1,
      'webhook_endpoints.previous_sealed_secret': 0,
      'templates.registry_password': 0,
    },
    unreadable: [],
    stillFromFormerKeys: { passwords: 1, sandboxes: 2, webhookKeys: 1 },
    next: expect.stringContaining('PLATFORM_PREVIOUS_SECRET_KEY'),
  });
  const again = JSON.parse((await runOperator('admin', dataDir, ['rotate-secret-key'])).stdout);
  expect(again).toMatchObject({ secretKey: 2, rewritten: { 'webhook_endpoints.sealed_secret': 0 } });

  await everythingWorks();
  expect(await statusWith(sessionOfFirst)).toBe(200);
  const log = ['api', 'worker', 'host', 'gateway'].map((name) =>
    fs.readFileSync(path.join(dataDir, 'logs', `${name}.log`), 'utf8'),
  );
  for (const each of [a, b]) expect([run.stdout, run.stderr, ...log].join('\n')).not.toContain(each);
}, 400_000);

test('then the new key alone is enough; sessions of the former key have ended, and the former key is refused', async () => {
  const later = await platform.client().createSandbox(small);
  const session = await signIn();
  await restart(b);
  await everythingWorks();
  expect([await statusWith(session), await statusWith(sessionOfFirst)]).toEqual([200, 401]);
  expect(await output(later, 'echo later')).toBe('later\n');
  const rolled = await platform
    .client()
    .request<Webhook>('POST', `/v1/webhooks/${webhook.endpoint_id}/roll-secret`, { secret: webhookSecret });
  expect(rolled.body.data.public_key).not.toBe(webhook.public_key);
  // The former key also signs for a day.
  await everythingWorks();
  webhook = rolled.body.data;
  await everythingWorks();
  const counted = JSON.parse((await runOperator('admin', dataDir, ['rotate-secret-key'])).stdout);
  expect(counted.stillFromFormerKeys).toEqual({ passwords: 1, sandboxes: 2, webhookKeys: 0 });
  for (const key of [a, c]) expect(await refusal(key)).toContain('PLATFORM_SECRET_KEY: is not the secret key');
  await restart(b);
  await platform.client().deleteSandbox(later.sandbox_id);
}, 400_000);

test('a restart of a sandbox replaces the tokens of a former key, and keeps its disk', async () => {
  const api = platform.client();
  const { sandbox_id: id, envd_access_token: former } = running;
  expect((await api.request('POST', `/v1/sandboxes/${id}/restart`, {})).status).toBe(200);
  const now = await api.sandbox(id);
  expect(now.status).toBe('running');
  expect(now.envd_access_token).not.toBe(former);
  expect(await output(now, 'cat /root/note')).toBe('with the token of the first key');
  const [own, old] = [platform.agent(now), platform.agent(now, former)];
  await own.upload('/root/note', 'with the token of the present key');
  await expect(old.upload('/root/note', 'no')).rejects.toThrow();
  own.close();
  old.close();
  expect(await output(now, 'cat /root/note')).toBe('with the token of the present key');
  running = now;
}, 180_000);

test('a backup of the replaced key is restored with that key alone', async () => {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'sandbox-platform-secret-key-'));
  fs.chmodSync(folder, 0o711);
  const [backup, restored] = [path.join(folder, 'backup'), path.join(folder, 'restored')];
  const before = platform;
  const { PLATFORM_API_KEY: apiKey } = before.env;
  expect(await runOperator('admin', dataDir, ['backup', '--to', backup])).toMatchObject({ code: 0 });
  await before.stop();
  fs.mkdirSync(restored);
  const second = new RunningPlatform({}, restored);
  try {
    expect(await runOperator('admin', restored, ['restore', '--from', backup])).toMatchObject({ code: 0 });
    await second.start();
    const api = second.client(apiKey!);
    const lost = await api.untilStatus(running.sandbox_id, 'paused');
    expect([lost.reason, lost.envd_access_token]).toEqual(['host_restarted', running.envd_access_token]);
    for (const { sandbox_id: id } of [running, paused]) {
      expect((await api.request('POST', `/v1/sandboxes/${id}/resume`, {})).status).toBe(200);
      await api.deleteSandbox(id);
    }
  } finally {
    await second.stop();
    await second.hostRemains();
    fs.rmSync(folder, { recursive: true, force: true });
  }
  await before.start();
  for (const { sandbox_id: id } of [running, paused]) await before.client().deleteSandbox(id);
}, 400_000);
