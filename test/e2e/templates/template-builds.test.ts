import { readdirSync } from 'node:fs';
import path from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { PlatformClient, SandboxView } from '../../../ops/development/client/platform-client.ts';
import { RunningPlatform } from '../../support/running-platform.ts';
import { until } from '../../support/until.ts';

/** Templates from running sandboxes, on the whole platform with its embedded registry. */
// On a busy machine a killed host worker may need longer for its restart than the default lease lasts.
const platform = await RunningPlatform.onSharedServers({
  PLATFORM_HOST_LEASE_SECONDS: '60',
});
let api: PlatformClient;
let sandbox: SandboxView;
const small = { cpu_count: 1, memory_mb: 256, storage_gb: 1 };
/** On a busy machine the base image is packed slowly. */
const timeoutMs = 240_000;

beforeAll(async () => {
  await platform.start();
  api = platform.client();
  sandbox = await api.createSandbox(small);
}, 180_000);
afterAll(async () => {
  await platform.stop();
  await platform.hostRemains();
  platform.removeData();
}, 180_000);

interface Template {
  template_id: string;
  status: string;
  build_error_message: string | null;
  image_size_bytes: number;
}

async function run(command: string, id = sandbox.sandbox_id): Promise<string> {
  const { status, body } = await api.request('POST', `/v1/sandboxes/${id}/exec`, { command, wait: true });
  expect([status, body]).toEqual([200, expect.objectContaining({ exit_code: 0 })]);
  return (body as unknown as { stdout: string }).stdout;
}

async function createTemplate(name: string): Promise<string> {
  const path = `/v1/sandboxes/${sandbox.sandbox_id}/create-template`;
  const { status, body } = await api.request<Template>('POST', path, { name });
  expect([status, body]).toEqual([200, expect.anything()]);
  return body.data.template_id;
}

async function settled(templateId: string): Promise<Template> {
  let template: Template | undefined;
  await until(async () => {
    template = (await api.request<Template>('GET', `/v1/templates/${templateId}`)).body.data;
    return ['available', 'failed'].includes(template.status);
  }, timeoutMs);
  return template!;
}

const builds = () => readdirSync(path.join(platform.dataDir, 'oci/builds'));

test('a sandbox made from a template of another has its files, and lacks what was deleted', async () => {
  await run(
    'mkdir /opt/mine; echo hello >/opt/mine/file; chown 1000:1000 /opt/mine/file; rm -rf /usr/share/doc /etc/sudoers.d;' +
      'mkdir /etc/sudoers.d; ln /opt/mine/file /opt/mine/hard; cp /usr/bin/env /opt/mine/suid; chmod 4755 /opt/mine/suid;' +
      'truncate -s 5G /opt/mine/holes; pip config set global.timeout 7 >/dev/null',
  );
  const template = await settled(await createTemplate('with-files'));
  expect(template).toMatchObject({ status: 'available', build_error_message: null });
  await until(() => builds().length === 0, 60_000);
  const made = await api.createSandbox({ ...small, template: 'with-files' });
  const look =
    'cat /opt/mine/hard; stat -c "%u:%g %h" /opt/mine/file; stat -c %a /opt/mine/suid; stat -c %s /opt/mine/holes;' +
    'ls /usr/share/doc /etc/sudoers.d 2>&1; pip config get global.timeout; echo $LANG';
  expect((await run(look, made.sandbox_id)).split('\n')).toEqual([
    ...['hello', '1000:1000 2', '4755', String(5 * 1024 ** 3)],
    "ls: cannot access '/usr/share/doc': No such file or directory",
    ...['/etc/sudoers.d:', '7', 'C.UTF-8', ''],
  ]);
  const inUse = await api.request('DELETE', `/v1/templates/${template.template_id}`);
  expect([inUse.status, inUse.body.code]).toEqual([409, 'template_in_use']);
  await api.deleteSandbox(made.sandbox_id);
  expect((await api.request('DELETE', `/v1/templates/${template.template_id}`)).status).toBe(200);
}, 600_000);

test('a host worker that is killed during a build finishes the template after its restart, and the sandbox continues', async () => {
  await run(
    'head -c 50M /dev/urandom >/opt/mine/large; (while :; do date +%s%N >/opt/mine/tick; sleep 0.1; done) &>/dev/null &',
  );
  const templateId = await createTemplate('after-kill');
  await until(() => builds().includes(templateId), 60_000);
  for (const pid of platform.findPids('worker/host.ts')) process.kill(pid, 'SIGKILL');
  const tick = await run('cat /opt/mine/tick');
  await until(async () => (await run('cat /opt/mine/tick')) !== tick, 60_000);
  expect(await settled(templateId)).toMatchObject({ status: 'available' });
  expect((await api.sandbox(sandbox.sandbox_id)).status).toBe('running');
  await until(() => builds().length === 0, 60_000);
}, 600_000);

test('nothing is left behind after the sandbox', async () => {
  await api.deleteSandbox(sandbox.sandbox_id, 60_000);
  await platform.stop();
  expect(await platform.hostRemains()).toEqual([]);
}, 180_000);
