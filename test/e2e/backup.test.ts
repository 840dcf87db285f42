import { createHash } from 'node:crypto';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { Client } from 'pg';
import { PlatformClient, type SandboxView } from '../../ops/development/client/platform-client.ts';
import { runningPlatformEnv } from '../../ops/local-stack/supervisor/running-platform.ts';
import { ApiReplica } from '../support/api-replica.ts';
import { runOperator } from '../support/operator.ts';
import { anyLayer, pushImage } from '../support/pushed-image.ts';
import { RegistryFront } from '../support/registry-front.ts';
import { RunningPlatform } from '../support/running-platform.ts';
import { registryAddress } from '../support/stack.ts';
import { until } from '../support/until.ts';
import { answerWith, WebhookReceiver } from '../support/webhook-receiver.ts';

/** A backup of a running platform, and a platform that is restored from it. */
const first = new RunningPlatform({ PLATFORM_HOST_LEASE_SECONDS: '60' });
const folders = fs.mkdtempSync(path.join(os.tmpdir(), 'sandbox-platform-backup-'));
const backup = path.join(folders, 'backup');
const restored = path.join(folders, 'restored');
const earlyBackup = path.join(folders, 'early');
let second: RunningPlatform | null = null;
let third: RunningPlatform | null = null;
const small = { cpu_count: 1, memory_mb: 256, storage_gb: 1, timeout: 3600 };
let receiver: WebhookReceiver;
/** Refuses everything from the first platform, whose delivery then waits with a timer for the next attempt. */
let refusing: WebhookReceiver;
let paused: SandboxView;
let running: SandboxView;
/** It runs before its workflow has begun. */
let early: SandboxView;
/** Its timeout passes between the backup and the restore. */
let shortLived: SandboxView;

beforeAll(async () => {
  // Other users need access to the cluster in it.
  fs.chmodSync(folders, 0o711);
  receiver = await WebhookReceiver.start();
  refusing = await WebhookReceiver.start(answerWith(503, { 'retry-after': '20' }));
  await first.start();
}, 180_000);
afterAll(async () => {
  await first.stop();
  await second?.stop();
  await third?.stop();
  await receiver.stop();
  await refusing.stop();
  await first.hostRemains();
  if (second) await third?.hostRemains();
  const remains = await (second ?? third)?.hostRemains();
  first.removeData();
  fs.rmSync(folders, { recursive: true, force: true });
  expect(remains).toEqual([]);
}, 180_000);

const write = async (platform: RunningPlatform, sandbox: SandboxView, text: string) => {
  const agent = platform.agent(sandbox);
  await agent.upload('/root/note', text);
  agent.close();
};
const run = async (api: PlatformClient, id: string, command: string) => {
  const { body } = await api.request('POST', `/v1/sandboxes/${id}/exec`, { command, wait: true });
  return (body as unknown as { stdout: string }).stdout;
};

test('a backup of a running platform freezes a sandbox only for its own disk, takes creates meanwhile, and is complete or absent', async () => {
  const api = first.client();
  for (const [url, eventTypes] of [
    [receiver.url, ['sandbox.*']],
    [refusing.url, ['sandbox.paused']],
  ]) {
    await api.request('POST', '/v1/webhooks', { url, event_types: eventTypes, scope: 'account' });
  }
  paused = await api.createSandbox(small);
  await write(first, paused, 'of the paused one');
  await api.request('POST', `/v1/sandboxes/${paused.sandbox_id}/pause`, {});
  running = await api.createSandbox(small);
  await write(first, running, 'of the running one');
  const { body: started } = await api.request('POST', `/v1/sandboxes/${running.sandbox_id}/exec`, {
    command: 'setsid sleep 1000 >/dev/null 2>&1 & echo $!',
    wait: true,
  });
  const pid = (started as unknown as { stdout: string }).stdout.trim();

  const address = await registryAddress();
  const front = await RegistryFront.start(address);
  await pushImage(`http://${address}`, 'source/backed-up', { layers: [anyLayer(200_000)] });
  const imported = await api.request<{ job_id: string }>('POST', '/v1/templates/import', {
    name: 'backed-up',
    external_image_url: `${front.address}/source/backed-up`,
  });
  await until(async () => {
    const job = await api.request<{ status: string }>('GET', `/v1/import-jobs/${imported.body.data.job_id}`);
    return job.body.data.status === 'completed';
  }, 90_000);
  await front.stop();

  await until(() => refusing.received.length > 0);

  shortLived = await api.createSandbox({ ...small, timeout: 60 });
  let isMade = false;
  const making = runOperator('admin', first.dataDir, ['backup', '--to', backup]).finally(() => {
    isMade = true;
  });
  const during: string[] = [];
  while (!isMade) {
    const { sandbox_id: id, status } = await api.createSandbox(small);
    during.push(status);
    await api.deleteSandbox(id);
  }
  const made = await making;
  // The text of a failure is in the report.
  expect({ code: made.code, failure: made.code === 0 ? '' : made.stderr }).toEqual({ code: 0, failure: '' });
  expect(new Set(during)).toEqual(new Set(['running']));
  const report = JSON.parse(made.stdout);
  const pauses = receiver.received.filter(
    ({ body }) => body.includes('"sandbox.paused"') && body.includes(running.sandbox_id),
  );
  expect(pauses).toEqual([]);
  expect(report).toMatchObject({
    folder: backup,
    sandboxes: expect.arrayContaining([paused.sandbox_id, running.sandbox_id]),
  });
  expect(await api.sandbox(running.sandbox_id)).toMatchObject({ status: 'running' });
  expect(await api.sandbox(paused.sandbox_id)).toMatchObject({ status: 'paused', reason: 'user_requested' });
  expect(await run(api, running.sandbox_id, `kill -0 ${pid} && cat /root/note`)).toBe('of the running one');
  expect(fs.statSync(backup).mode & 0o777).toBe(0o700);
  for (const name of ['oci', 'registry'])
    expect(fs.readdirSync(path.join(first.dataDir, name))).not.toContain('backup-links');
  const again = await runOperator('admin', first.dataDir, ['backup', '--to', backup]);
  expect(again).toMatchObject({ code: 1, stderr: expect.stringContaining('exists already') });
  // Later changes are not in the backup.
  await write(first, running, 'later');
}, 300_000);

test('a backup has a sandbox whose workflow has not begun', async () => {
  // This process starts no workflow, and the relay, which would start it after five seconds, does not find it due.
  const api = await ApiReplica.start(first.dataDir, { TEMPORAL_ADDRESS: '127.0.0.1:1' });
  const { DATABASE_URL: url } = runningPlatformEnv(first.dataDir, {});
  const database = new Client({ connectionString: url });
  await database.connect();
  try {
    early = await new PlatformClient(api.url, first.env.PLATFORM_API_KEY!).createSandbox(small);
    const postponed = await database.query(
      "update outbox set not_before = now() + interval '1 hour' where workflow_id = $1",
      [early.sandbox_id],
    );
    expect(postponed.rowCount).toBe(1);
    await write(first, early, 'of the early one');
    const made = await runOperator('admin', first.dataDir, ['backup', '--to', earlyBackup]);
    expect({ code: made.code, failure: made.code === 0 ? '' : made.stderr }).toEqual({ code: 0, failure: '' });
  } finally {
    await database.end();
    await api.stop();
  }
}, 180_000);

test('a backup is restored only into an empty data folder, and only from a complete backup', async () => {
  const restore = (from: string, dataDir: string) => runOperator('admin', dataDir, ['restore', '--from', from]);
  expect(await restore(backup, first.dataDir)).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('is not empty'),
  });
  const half = path.join(folders, 'half');
  fs.mkdirSync(half);
  expect(await restore(half, restored)).toMatchObject({ code: 1, stderr: expect.stringContaining('no whole backup') });
  expect(fs.existsSync(restored)).toBe(false);
}, 180_000);

test('the restored platform has accounts, keys, disks, images and workflows of that instant', async () => {
  await until(() => receiver.received.length >= 5);
  const { PLATFORM_API_KEY: key } = first.env;
  await until(async () => (await first.client().sandbox(shortLived.sandbox_id)).status === 'terminated', 90_000);
  // Its sandboxes stay on this machine.
  await first.stop();
  const before = receiver.received.length;
  const refused = refusing.received.length;
  refusing.answer = answerWith(200);
  fs.mkdirSync(restored);
  const made = await runOperator('admin', restored, ['restore', '--from', backup]);
  expect(made.stderr).not.toContain('Error');
  expect(made).toMatchObject({ code: 0, stdout: expect.stringContaining(`"dataDir": "${restored}"`) });
  second = new RunningPlatform({ PLATFORM_HOST_LEASE_SECONDS: '60' }, restored);
  await second.start();
  expect(second.output).not.toContain('API key');
  const api = second.client(key!);

  // Their processes are gone, as after a reboot. Their disks have the state of the backup.
  for (const { sandbox_id: id } of [running, shortLived]) {
    await until(async () => (await api.sandbox(id)).status !== 'running');
    expect(await api.sandbox(id)).toMatchObject({ status: 'paused', reason: 'host_restarted' });
  }
  for (const [sandbox, text] of [
    [paused, 'of the paused one'],
    [running, 'of the running one'],
  ] as const) {
    const { sandbox_id: id } = sandbox;
    expect((await api.request('POST', `/v1/sandboxes/${id}/resume`, {})).status).toBe(200);
    expect(await run(api, id, 'cat /root/note')).toBe(text);
  }

  // Workflows continue: with timers from before the backup, and with new requests.
  const waiting = refusing.ids[0]!;
  await until(() => refusing.ids.slice(refused).includes(waiting), 90_000);
  await api.deleteSandbox(running.sandbox_id);
  const fresh = await api.createSandbox(small);
  expect(fresh.status).toBe('running');
  await api.deleteSandbox(fresh.sandbox_id);
  await api.deleteSandbox(paused.sandbox_id);
  await api.deleteSandbox(shortLived.sandbox_id);
  // A sandbox that was being created at the instant of the backup is created here.
  type Listed = { sandboxes: SandboxView[] };
  const left = (await api.request<Listed>('GET', '/v1/sandboxes')).body.data.sandboxes;
  for (const { sandbox_id: id } of left) await api.deleteSandbox(id);

  const listed = await api.request<{ templates: { name: string }[] }>('GET', '/v1/templates');
  expect(listed.body.data.templates.map(({ name }) => name)).toContain('backed-up');
  const me = await api.request<{ user_id: string }>('GET', '/v1/users/me');
  const { PLATFORM_REGISTRY: registry } = JSON.parse(fs.readFileSync(path.join(restored, 'settings.json'), 'utf8'));
  expect(await damagedBlobs(`http://${registry}`, `${me.body.data.user_id}/backed-up`)).toEqual([]);

  // At least once: events that were sent after the instant may be sent again with the same id.
  await until(() => receiver.received.some(({ body: sent }) => sent.includes('"sandbox.terminated"')));
  const after = receiver.received.slice(before).map(({ id }) => id);
  expect(new Set(after).size).toBe(after.length);
}, 300_000);

test('a restored sandbox keeps its disk, also if its workflow had not begun at the time of the backup', async () => {
  const { PLATFORM_API_KEY: key } = first.env;
  await first.stop();
  await second?.stop();
  const dataDir = path.join(folders, 'of the early one');
  const made = await runOperator('admin', dataDir, ['restore', '--from', earlyBackup]);
  expect({ code: made.code, failure: made.code === 0 ? '' : made.stderr }).toEqual({ code: 0, failure: '' });
  third = new RunningPlatform({ PLATFORM_HOST_LEASE_SECONDS: '60' }, dataDir);
  await third.start();
  const api = third.client(key!);
  await until(async () => (await api.sandbox(early.sandbox_id)).status === 'paused');
  expect(await api.sandbox(early.sandbox_id)).toMatchObject({ reason: 'host_restarted' });
  expect((await api.request('POST', `/v1/sandboxes/${early.sandbox_id}/resume`, {})).status).toBe(200);
  expect(await run(api, early.sandbox_id, 'cat /root/note')).toBe('of the early one');
}, 300_000);

interface Blob {
  digest: string;
  size: number;
}

/** The configuration and the layers of an image whose bytes in the registry do not match its manifest. */
async function damagedBlobs(registry: string, repository: string): Promise<string[]> {
  const accept = 'application/vnd.oci.image.manifest.v1+json, application/vnd.docker.distribution.manifest.v2+json';
  const reply = await fetch(`${registry}/v2/${repository}/manifests/latest`, { headers: { accept } });
  expect(reply.status).toBe(200);
  const { config, layers } = (await reply.json()) as { config: Blob; layers: Blob[] };
  expect(layers.length).toBeGreaterThan(0);
  const damaged: string[] = [];
  for (const { digest, size } of [config, ...layers]) {
    const bytes = Buffer.from(await (await fetch(`${registry}/v2/${repository}/blobs/${digest}`)).arrayBuffer());
    const found = `sha256:${createHash('sha256').update(bytes).digest('hex')}`;
    if (found !== digest || bytes.length !== size) damaged.push(digest);
  }
  return damaged;
}
