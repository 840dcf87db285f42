import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import type { AgentClient } from '../../../ops/development/client/agent-client.ts';
import type { PlatformClient, SandboxView } from '../../../ops/development/client/platform-client.ts';
import { freePort } from '../../support/free-port.ts';
import { readIfThere } from '../../support/read-if-there.ts';
import { RunningPlatform } from '../../support/running-platform.ts';
import { S3Server, StallingProxy } from '../../support/s3-server.ts';
import { TemporaryCredentials } from '../../support/temporary-credentials.ts';
import { until } from '../../support/until.ts';

/** Mounts on the whole platform as it starts by default, with a real S3 server on this machine. */
const small = { cpu_count: 1, memory_mb: 256, storage_gb: 1 };
// On a busy machine a killed host worker may need longer for its restart than the default lease lasts.
const platform = await RunningPlatform.onSharedServers({
  PLATFORM_WARM_POOL_SIZE: '1',
  PLATFORM_HOST_LEASE_SECONDS: '60',
});
let s3: S3Server;
let temporary: TemporaryCredentials;
let api: PlatformClient;

beforeAll(async () => {
  s3 = await S3Server.start('data', 'more');
  temporary = await TemporaryCredentials.before(s3);
  await platform.start();
  api = platform.client();
}, 240_000);

afterAll(async () => {
  await platform.stop();
  const remains = await platform.hostRemains();
  platform.removeData();
  await temporary?.stop();
  await s3?.stop();
  expect(remains).toEqual([]);
}, 180_000);

const mount = (fields?: Record<string, unknown>) => s3.mount(fields);
const shortLived = (fields: Record<string, unknown> = {}) =>
  mount({
    endpoint: temporary.endpoint,
    access_key: temporary.accessKey,
    secret_key: temporary.secretKey,
    session_token: temporary.sessionToken,
    ...fields,
  });
const post = (sandbox: SandboxView, action: string, body: unknown = {}) =>
  api.request<SandboxView>('POST', `/v1/sandboxes/${sandbox.sandbox_id}/${action}`, body);

async function withSandbox(
  wanted: Record<string, unknown>,
  work: (sandbox: SandboxView, agent: AgentClient) => Promise<void>,
): Promise<void> {
  const sandbox = await api.createSandbox({ ...small, ...wanted });
  const agent = platform.agent(sandbox);
  try {
    await work(sandbox, agent);
  } finally {
    agent.close();
    await api.deleteSandbox(sandbox.sandbox_id);
  }
}
const run = async (agent: AgentClient, script: string) => (await agent.run('/bin/sh', ['-c', script])).stdout;

test('a bucket is a folder of a sandbox, also after a pause, until a resume removes it', async () => {
  s3.write('data', 'greeting', 'hello');
  const asked = { object_storage: [mount(), mount({ uri: 's3://more/a/b', mount_point: '/srv/more' })] };
  await withSandbox({ ...asked, allow_internet_access: false }, async (sandbox, agent) => {
    expect(sandbox).toMatchObject({
      status: 'running',
      object_storage: [
        { slot: 0, state: 'active', uri: 's3://data/', mount_point: '/mnt/data', endpoint: s3.endpoint },
        { slot: 1, state: 'active', uri: 's3://more/a/b', mount_point: '/srv/more', region: 'us-east-1' },
      ],
      object_storage_single: null,
    });
    expect(await run(agent, 'cat /mnt/data/greeting; echo from inside > /srv/more/note')).toBe('hello');
    expect(s3.read('more', 'a/b/note')).toBe('from inside\n');
    await agent.upload('/mnt/data/uploaded', 'through the agent');
    expect(s3.read('data', 'uploaded')).toBe('through the agent');

    await post(sandbox, 'pause');
    const resumed = await post(sandbox, 'resume', {
      object_storage: { mounts: [{ mount_point: '/srv/more', disable: true }] },
    });
    expect(resumed.body.data).toMatchObject({
      status: 'running',
      object_storage: [{ state: 'active' }, { state: 'disabled' }],
    });
    expect(resumed.body.data.object_storage_single).toBeNull();
    expect(await run(agent, 'cat /mnt/data/uploaded; ls /srv/more')).toBe('through the agent');
    await post(sandbox, 'pause');
    const { body } = await post(sandbox, 'resume', {
      object_storage: {
        mounts: [{ mount_point: '/mnt/data', delete: true }, mount({ uri: 's3://more/', mount_point: '/srv/more' })],
      },
    });
    const more = { slot: 1, state: 'active', uri: 's3://more/', mount_point: '/srv/more' };
    expect(body.data).toMatchObject({
      object_storage: [{ slot: 0, state: 'free' }, more],
      object_storage_single: more,
    });
    expect(await run(agent, 'cat /srv/more/a/b/note; ls /mnt/data')).toBe('from inside\n');
  });
}, 180_000);

test('a wrong key, and an endpoint without a server, fail the sandbox with a reason', async () => {
  const proxy = await StallingProxy.start(s3.port);
  proxy.stall();
  const dead = `http://127.0.0.1:${await freePort()}`;
  const noAnswer = 'could not be reached, or gave no usable answer';
  const cases: [Record<string, unknown>, string][] = [
    [mount({ secret_key: 'wrong' }), 'refused the credentials'],
    [mount({ endpoint: dead }), noAnswer],
    [mount({ endpoint: proxy.endpoint }), noAnswer],
  ];
  try {
    const made = cases.map(([objectStorage]) => api.createSandbox({ ...small, object_storage: objectStorage }));
    for (const [index, sandbox] of (await Promise.all(made)).entries()) {
      expect(sandbox).toMatchObject({ status: 'failed', reason: 'object_storage_mount_failed' });
      expect((sandbox.failure as { message: string }).message).toContain(cases[index]![1]);
      await api.deleteSandbox(sandbox.sandbox_id);
    }
  } finally {
    await proxy.stop();
  }
}, 180_000);

test('temporary credentials are required again at a resume, and the old ones do not work', async () => {
  await withSandbox({ object_storage: shortLived() }, async (sandbox, agent) => {
    expect(sandbox.object_storage_single).toMatchObject({ state: 'active', short_lived: true });
    expect(await run(agent, 'echo 1 > /mnt/data/temporary; cat /mnt/data/temporary')).toBe('1\n');
    await post(sandbox, 'pause');
    expect(await post(sandbox, 'resume')).toMatchObject({
      status: 409,
      body: { code: 'object_storage_credentials_required' },
    });
    const batch = { sandbox_ids: [sandbox.sandbox_id] };
    expect(await api.request('POST', '/v1/sandboxes/batch-resume', batch)).toMatchObject({
      status: 202,
      body: { data: { results: [{ status: 'failed', code: 'object_storage_credentials_required' }] } },
    });
    temporary.expire();
    const old = await post(sandbox, 'resume', { object_storage: { mounts: [shortLived()] } });
    expect(old).toMatchObject({ status: 409, body: { code: 'object_storage_mount_failed' } });
    expect(await api.sandbox(sandbox.sandbox_id)).toMatchObject({ status: 'paused' });
    const { body } = await post(sandbox, 'resume', { object_storage: { mounts: [mount()] } });
    expect(body.data.object_storage).toEqual([
      {
        slot: 0,
        state: 'active',
        uri: 's3://data/',
        mount_point: '/mnt/data',
        endpoint: s3.endpoint,
        region: 'us-east-1',
      },
    ]);
    expect(await run(agent, 'cat /mnt/data/temporary')).toBe('1\n');
  });
}, 180_000);

test('after a restart of its host, a sandbox needs the credentials of every mount, or runs without them', async () => {
  await withSandbox({ object_storage: mount() }, async (sandbox, agent) => {
    await run(agent, 'echo kept > /root/kept');
    await restartHost(sandbox);
    await api.untilStatus(sandbox.sandbox_id, 'paused');
    expect(await post(sandbox, 'resume')).toMatchObject({
      status: 409,
      body: { code: 'object_storage_credentials_required' },
    });
    const blind = await post(sandbox, 'resume', { best_effort_oss: true });
    expect(blind.body.data).toMatchObject({ status: 'running', object_storage: [{ slot: 0, state: 'disabled' }] });
    await post(sandbox, 'pause');
    const { body } = await post(sandbox, 'resume', { object_storage: { mounts: [mount()] } });
    expect(body.data).toMatchObject({ status: 'running', object_storage_single: { slot: 0, state: 'active' } });
    const again = platform.agent(body.data);
    expect(await run(again, 'cat /root/kept; echo back > /mnt/data/back')).toBe('kept\n');
    expect(s3.read('data', 'back')).toBe('back\n');
    again.close();
  });
}, 180_000);

test('a bucket that stops answering delays neither pause nor deletion', async () => {
  const proxy = await StallingProxy.start(s3.port);
  await withSandbox({ object_storage: mount({ endpoint: proxy.endpoint }) }, async (sandbox, agent) => {
    proxy.stall();
    await agent.start('cat', ['/mnt/data/never']);
    const paused = await post(sandbox, 'pause');
    expect(paused.body.data).toMatchObject({ status: 'paused', reason: 'user_requested' });
    const resumed = await post(sandbox, 'resume', { best_effort_oss: true });
    expect(resumed.body.data).toMatchObject({ status: 'running', object_storage: [{ state: 'disabled' }] });
  });
  await proxy.stop();
}, 180_000);

test('no credential was written anywhere by the platform', () => {
  const secrets = [s3.accessKey, s3.secretKey, temporary.secretKey, temporary.sessionToken];
  const files = readdirSync(platform.dataDir, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && !entry.name.endsWith('.ext4'))
    .map((entry) => path.join(entry.parentPath, entry.name));
  expect(files.length).toBeGreaterThan(100);
  const found = files.filter((file) => {
    const text = readIfThere(file);
    return secrets.some((secret) => text.includes(secret));
  });
  expect(found).toEqual([]);
  for (const secret of secrets) expect(platform.output).not.toContain(secret);
}, 180_000);

/** Simulates a reboot: every process of the host worker and of the sandbox ends at once, and the host starts again. */
async function restartHost(sandbox: SandboxView): Promise<void> {
  const folder = path.join(platform.dataDir, 'oci/sandboxes', sandbox.sandbox_id);
  const [shim, , init] = readFileSync(path.join(folder, 'pids'), 'utf8').trim().split(' ').map(Number);
  const [host] = platform.findPids('worker/host.ts');
  for (const pid of [host!, shim!, init!]) process.kill(pid, 'SIGKILL');
  await until(() => platform.findPids('worker/host.ts').some((pid) => pid !== host));
}
