import { execFileSync } from 'node:child_process';
import { chmodSync, chownSync, cpSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { ownArchitecture } from '../../../integrations/registry/own-architecture.ts';
import type { PlatformClient, SandboxView } from '../../../ops/development/client/platform-client.ts';
import { ensureBaseImage } from '../../../runtime/images/base-image.ts';
import { cacheDir } from '../../runtime/local-host.ts';
import { LoopbackRegistry } from '../../support/loopback-registry.ts';
import { muslTree } from '../../support/musl-tree.ts';
import { pushIndex, pushTree } from '../../support/pushed-image.ts';
import { RunningPlatform } from '../../support/running-platform.ts';
import { until } from '../../support/until.ts';

/**
 * Images of other registries, imported and run on the whole platform. They are made here, because no public image can
 * be fetched.
 */
let platform: RunningPlatform;
const small = { cpu_count: 1, memory_mb: 256, storage_gb: 1 };
let api: PlatformClient;
let source: LoopbackRegistry;
let folder: string;

beforeAll(async () => {
  folder = mkdtempSync(path.join(os.tmpdir(), 'imported-images-'));
  source = await LoopbackRegistry.start(folder);
  platform = await RunningPlatform.shared();
  api = platform.client();
}, 180_000);
afterAll(async () => {
  await platform?.leave();
  await source?.stop();
  rmSync(folder, { recursive: true, force: true });
}, 180_000);

const push = (name: string, tree: string, config: object = {}, architecture = ownArchitecture) =>
  pushTree(`http://${source.address}`, name, { tree, config, architecture });

interface ImportJob {
  job_id: string;
  template_id: string;
  status: string;
  error_message: string | null;
}

/** Imports an image, waits for the end, and makes a sandbox from it. */
async function createSandbox(name: string): Promise<SandboxView> {
  const job = await imported(name);
  expect(job).toMatchObject({ status: 'completed', error_message: null });
  return api.createSandbox({ template: job.template_id, ...small });
}

async function imported(name: string): Promise<ImportJob> {
  const wanted = { name: name.replace(/[/:]/g, '-'), external_image_url: `${source.address}/${name}` };
  let { data: job } = (await api.request<ImportJob>('POST', '/v1/templates/import', wanted)).body;
  await until(async () => {
    job = (await api.request<ImportJob>('GET', `/v1/import-jobs/${job.job_id}`)).body.data;
    return ['completed', 'failed', 'cancelled'].includes(job.status);
  }, 120_000);
  return job;
}

async function run(sandbox: SandboxView, command: string): Promise<string> {
  const path = `/v1/sandboxes/${sandbox.sandbox_id}/exec`;
  const { status, body } = await api.request('POST', path, { command, wait: true });
  expect([status, body]).toEqual([200, expect.objectContaining({ exit_code: 0 })]);
  return (body as unknown as { stdout: string }).stdout;
}

test('an image with musl and busybox runs its programs, with its environment', async () => {
  const tree = path.join(folder, 'musl');
  cpSync(await muslTree(), tree, { recursive: true, verbatimSymlinks: true });
  for (const name of ['etc', 'tmp', 'home/app']) mkdirSync(path.join(tree, name), { recursive: true });
  chownSync(path.join(tree, 'home/app'), 1000, 1000);
  writeFileSync(path.join(tree, 'etc/passwd'), 'root:x:0:0::/root:/bin/sh\napp:x:1000:1000::/home/app:/bin/sh\n');
  execFileSync('chroot', [tree, '/bin/busybox', '--install', '-s', '/bin']);
  expect(readdirSync(tree, { recursive: true, encoding: 'utf8' }).filter((file) => /libc\.so\.6/.test(file))).toEqual(
    [],
  );
  const config = {
    User: 'app',
    WorkingDir: '/home/app',
    Env: ['PATH=/bin', 'GREETING=hello'],
    Entrypoint: ['/bin/sh'],
  };
  await push('alpine/like', tree, config);

  const sandbox = await createSandbox('alpine/like');

  expect(await run(sandbox, 'ninja --version')).toMatch(/^1\.13/);
  // Commands of the API run as root in `/`. The image's user and folder apply to its own command.
  expect(await run(sandbox, 'id -un; pwd; echo $GREETING')).toBe('root\n/\nhello\n');
}, 240_000);

test('the command of an image starts with the sandbox, as its user and in its folder; its end does not end the sandbox', async () => {
  const config = {
    ...{ User: 'app', WorkingDir: '/home/app', Env: ['PATH=/bin', 'GREETING=hello'] },
    Entrypoint: ['/bin/sh', '-c'],
    Cmd: ['(id -un; pwd; echo $GREETING) >made; mv made began; exit 7'],
  };
  await push('alpine/command', path.join(folder, 'musl'), config);

  const sandbox = await createSandbox('alpine/command');

  expect(await run(sandbox, 'cd /home/app; until [ -e began ]; do sleep 0.1; done; cat began')).toBe(
    'app\n/home/app\nhello\n',
  );
  const view = await api.request<SandboxView>('GET', `/v1/sandboxes/${sandbox.sandbox_id}`);
  expect(view.body.data).toMatchObject({ status: 'running', template_custom_command: null });

  const template = `/v1/templates/${sandbox.template_id}`;
  await api.request('PUT', template, { start_image_command: false });
  const quiet = await api.createSandbox({ template: sandbox.template_id, ...small });
  // The command of the image has had more time in the first sandbox.
  expect(await run(quiet, 'sleep 1; ls /home/app')).toBe('');

  await api.request('PUT', template, { start_image_command: true, custom_command: 'echo broken; exit 7' });
  const failed = await api.request<SandboxView>('POST', '/v1/sandboxes', { template: sandbox.template_id, ...small });
  expect(failed.body).toMatchObject({
    data: {
      ...{ status: 'failed', reason: 'runtime_exited' },
      failure: { exit_code: 7, command_output: 'broken\n', out_of_memory: false },
    },
  });
}, 240_000);

test('an image with one static program and no shell runs it', async () => {
  const tree = path.join(folder, 'static');
  mkdirSync(tree);
  cpSync('/usr/bin/tini-static', path.join(tree, 'only'));
  chmodSync(path.join(tree, 'only'), 0o755);
  await push('distroless/like', tree, { Entrypoint: ['/only'] });

  const sandbox = await createSandbox('distroless/like');

  const { stdout } = await platform.agent(sandbox).run('/only', ['--version']);
  expect(stdout).toMatch(/^tini version/);
  const exec = { command: 'echo', wait: true };
  const refused = await api.request('POST', `/v1/sandboxes/${sandbox.sandbox_id}/exec`, exec);
  expect(refused).toMatchObject({ status: 409, body: { code: 'exec_not_possible' } });
}, 240_000);

test('a large image with Python runs Python', async () => {
  const { rootfs } = await ensureBaseImage({ cacheDir: cacheDir() });
  await push('python/large', rootfs, { Env: ['PATH=/usr/local/bin:/usr/bin:/bin'] });

  const sandbox = await createSandbox('python/large');

  expect(await run(sandbox, `python3 -c 'import json, sys; print(json.dumps(sys.version_info[:2]))'`)).toBe(
    '[3, 11]\n',
  );
}, 240_000);

test('an image for several platforms runs with this machine’s variant, and one only for others is refused', async () => {
  const tree = path.join(folder, 'static');
  const own = await push('several/own', tree, { Entrypoint: ['/only'] });
  const foreign = ownArchitecture === 'arm64' ? 'amd64' : 'arm64';
  const other = await push('several/own', tree, {}, foreign);
  const index = (tag: string, ...images: [string, string][]) =>
    pushIndex(`http://${source.address}`, 'several/own', tag, images);
  await index('both', [other, foreign], [own, ownArchitecture]);
  await index('others', [other, foreign]);

  const sandbox = await createSandbox('several/own:both');

  expect((await platform.agent(sandbox).run('/only', ['--version'])).stdout).toMatch(/^tini version/);
  expect(await imported('several/own:others')).toMatchObject({
    status: 'failed',
    error_message: expect.stringMatching(new RegExp(`platform|${ownArchitecture}`)),
  });
}, 240_000);
