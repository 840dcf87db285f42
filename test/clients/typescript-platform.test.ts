import { createServer } from 'node:http';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { Webhook } from 'standardwebhooks';
import { type ImportJob, Platform, Sandbox, type SandboxError, Webhooks } from '../../clients/typescript/src/index.ts';
import { pushImage } from '../support/pushed-image.ts';
import { RunningPlatform } from '../support/running-platform.ts';
import { registryAddress } from '../support/stack.ts';
import { until } from '../support/until.ts';
import { answerWith, WebhookReceiver } from '../support/webhook-receiver.ts';

/** What belongs to the account in the TypeScript client, against the whole platform. */
let running: RunningPlatform;
let options: { apiUrl: string; apiKey: string };
let platform: Platform;

beforeAll(async () => {
  running = await RunningPlatform.shared();
  options = { apiUrl: running.env.PLATFORM_URL!, apiKey: running.env.PLATFORM_API_KEY! };
  platform = new Platform(options);
}, 300_000);

afterAll(() => running?.leave(), 300_000);

const codeOf = (work: Promise<unknown>) =>
  work.then(
    () => 'nothing was thrown',
    (error: SandboxError) => error.code,
  );

async function all<Item>(items: AsyncIterable<Item>): Promise<Item[]> {
  const found: Item[] = [];
  for await (const item of items) found.push(item);
  return found;
}

describe('templates', () => {
  test('are imported with progress, found and deleted', async () => {
    const registry = await registryAddress();
    await pushImage(`http://${registry}`, 'clients/app');
    const jobs: ImportJob[] = [];
    const template = await platform.templates.import('client-app', `${registry}/clients/app`, {
      ...{ description: 'of a client', memoryMb: 256 },
      onProgress: (job) => jobs.push(job),
    });
    expect(template).toMatchObject({ name: 'client-app', status: 'available', default_memory_mb: 256 });
    expect(jobs.at(-1)).toMatchObject({ status: 'completed', progress_percentage: 100 });
    expect(await platform.templates.get(template.template_id)).toMatchObject({ description: 'of a client' });
    const listed = await all(platform.templates.list({ usable: true, visibility: 'private' }));
    expect(listed.map(({ name }) => name)).toContain('client-app');
    await platform.templates.delete(template.template_id);
    expect(await codeOf(platform.templates.get(template.template_id))).toBe('not_found');
  });

  test('an import that fails says why', async () => {
    const registry = await registryAddress();
    const failed = platform.templates.import('client-none', `${registry}/clients/none`);
    await expect(failed).rejects.toMatchObject({ code: 'import_failed', message: expect.stringContaining('none') });
    const [left] = (await all(platform.templates.list())).filter(({ name }) => name === 'client-none');
    if (left) await platform.templates.delete(left.template_id);
  });

  test('are made from a sandbox, and have its files', async () => {
    const sandbox = await Sandbox.create(options);
    await sandbox.files.write('/srv/kept', 'kept');
    const template = await platform.templates.fromSandbox(sandbox.id, 'client-made');
    await sandbox.terminate();
    const made = await Sandbox.create({ ...options, template: 'client-made' });
    expect(await made.files.read('/srv/kept')).toBe('kept');
    await made.delete();
    await until(async () => (await codeOf(platform.templates.delete(template.template_id))) === 'nothing was thrown');
  });
});

test('API keys are made, disabled, enabled and deleted', async () => {
  const made = await platform.apiKeys.create('of the client', { description: 'for a test' });
  const own = new Platform({ ...options, apiKey: made.api_key! });
  expect(await all(own.apiKeys.list())).toContainEqual(expect.objectContaining({ key_id: made.key_id }));
  await platform.apiKeys.setActive(made.key_id, false);
  expect(await codeOf(all(own.apiKeys.list()))).toBe('unauthenticated');
  const inactive = await all(platform.apiKeys.list({ status: 'inactive' }));
  expect(inactive.map(({ key_id }) => key_id)).toContain(made.key_id);
  await platform.apiKeys.setActive(made.key_id, true);
  expect((await own.usage.quota()).used.cpu_seconds).toBeGreaterThanOrEqual(0);
  await platform.apiKeys.delete(made.key_id);
  expect(await codeOf(own.usage.quota())).toBe('unauthenticated');
});

test('usage.summary returns the usage of a period by group', async () => {
  const sandbox = await Sandbox.create({ ...options, metadata: { team: 'of-the-client' } });
  const { summary, groups } = await platform.usage.summary({
    start: new Date(Date.now() - 3_600_000),
    groupBy: 'metadata.team',
  });
  expect(summary.total_sessions).toBeGreaterThan(0);
  expect(groups!.map(({ value }) => value)).toContain('of-the-client');
  await sandbox.terminate();
});

describe('webhooks', () => {
  const secret = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw';

  test('are made and tested, and their deliveries verified with the secret and with the public key', async () => {
    const receiver = await WebhookReceiver.start(answerWith(204));
    // A family without events in these tests. Sandboxes of other tests on this platform have events.
    const webhook = await platform.webhooks.create(receiver.url, ['budget.*'], { secret, description: 'a test' });
    expect((await all(platform.webhooks.list())).map(({ endpoint_id }) => endpoint_id)).toContain(webhook.endpoint_id);
    await platform.webhooks.test(webhook.endpoint_id);
    await until(() => receiver.received.length > 0);
    const [{ body, headers }] = receiver.received as [(typeof receiver.received)[0]];
    for (const key of [secret, webhook.public_key]) {
      expect(Webhooks.verify(body, headers, key)).toMatchObject({ id: headers['webhook-id'], type: 'webhook.test' });
      expect(Webhooks.verify(Buffer.from(body), new Headers(headers), key).type).toBe('webhook.test');
      const changed = () => Webhooks.verify(body.replace('test', 'tset'), headers, key);
      expect(changed).toThrow(expect.objectContaining({ code: 'invalid_signature' }));
    }
    await platform.webhooks.delete(webhook.endpoint_id);
    await receiver.stop();
  });

  test.each([
    ['without a signature', { 'webhook-signature': undefined }, secret, 'invalid_signature'],
    ['with an empty signature', { 'webhook-signature': '' }, secret, 'invalid_signature'],
    ['with a signature of another kind', { 'webhook-signature': 'v1a,AAAA v2,AAAA v1' }, secret, 'invalid_signature'],
    ['that is old', { 'webhook-timestamp': '1000' }, secret, 'invalid_signature'],
    ['with a time that is no number', { 'webhook-timestamp': 'now' }, secret, 'invalid_signature'],
    ['with another secret', {}, 'whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA', 'invalid_signature'],
    ['with a key that is none', {}, 'secret', 'not_configured'],
    ['with a public key of another length', {}, 'whpk_AAAA', 'not_configured'],
  ])('a delivery %s is refused', (_, changes, key, code) => {
    const now = new Date();
    const signature = new Webhook(secret).sign('evt-1', now, '{}');
    const headers = { 'webhook-id': 'evt-1', 'webhook-timestamp': `${Math.floor(+now / 1000)}` };
    const sent = { ...headers, 'Webhook-Signature': signature };
    expect(Webhooks.verify('{}', sent, secret)).toEqual({});
    const given = Object.fromEntries(
      Object.entries({ ...headers, 'webhook-signature': signature, ...changes }).filter(
        ([, value]) => value !== undefined,
      ),
    );
    expect(() => Webhooks.verify('{}', given, key)).toThrow(expect.objectContaining({ code }));
  });
});

test('a platform that does not answer ends a request after its time', async () => {
  const silent = createServer(() => {}).listen(0, '127.0.0.1');
  await until(() => silent.listening);
  const { port } = silent.address() as { port: number };
  const own = new Platform({ apiUrl: `http://127.0.0.1:${port}`, apiKey: 'key', requestTimeoutMs: 200 });
  expect(await codeOf(own.usage.quota())).toBe('timed_out');
  expect(await codeOf(own.usage.quota({ requestTimeoutMs: 100 }))).toBe('timed_out');
  await expect(own.usage.quota({ signal: AbortSignal.abort(new Error('left')) })).rejects.toThrow('left');
  silent.closeAllConnections();
  silent.close();
});
