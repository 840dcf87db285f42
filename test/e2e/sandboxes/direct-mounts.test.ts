import { Client } from 'pg';
import type { PlatformClient } from '../../../ops/development/client/platform-client.ts';
import { runningPlatformEnv } from '../../../ops/local-stack/supervisor/running-platform.ts';
import { OutsideNetwork } from '../../runtime/outside-network.ts';
import { RunningPlatform } from '../../support/running-platform.ts';
import { S3Server } from '../../support/s3-server.ts';
import { S3fsImage } from '../../support/s3fs-image.ts';

/** Direct mounts on the whole platform, with a custom template of an image with its own s3fs. */
const platform = await RunningPlatform.onSharedServers({
  PLATFORM_REGISTRY_INSECURE_HTTP: 'true',
});
const asked = { cpu_count: 1, memory_mb: 256, storage_gb: 1, template: 'with-s3fs', object_storage_direct_mount: true };
let image: S3fsImage;
let outside: OutsideNetwork;
let s3: S3Server;
let api: PlatformClient;

beforeAll(async () => {
  image = await S3fsImage.start();
  await platform.start();
  // After the platform, which would otherwise treat it as a network of its host and close it for sandboxes.
  outside = new OutsideNetwork(71);
  s3 = await S3Server.startIn(outside, 'data');
  api = platform.client();
  const database = new Client({ connectionString: runningPlatformEnv(platform.dataDir, {}).DATABASE_URL });
  await database.connect();
  await database.query(
    `insert into templates (template_id, name, default_cpu_count, default_memory_mb, visibility, template_source,
       status, image, created_at, updated_at)
     values ('tpl-withs3fs', 'with-s3fs', 1, 256, 'public', 'custom', 'available', $1, now(), now())`,
    [image.reference],
  );
  await database.end();
}, 240_000);

afterAll(async () => {
  await platform.stop();
  const remains = await platform.hostRemains();
  platform.removeData();
  await image?.stop();
  await s3?.stop();
  outside?.remove();
  expect(remains).toEqual([]);
}, 180_000);

const mount = (fields?: Record<string, unknown>) => s3.mount(fields);

test("the template's own s3fs serves a bucket from inside, also after a pause", async () => {
  s3.write('data', 'greeting', 'hello');
  const wanted = { ...asked, object_storage: mount(), s3fs_executable_path: '/opt/my-s3fs' };
  const sandbox = await api.createSandbox(wanted);
  const agent = platform.agent(sandbox);
  const run = async (script: string) => (await agent.run('/bin/sh', ['-c', script])).stdout;
  const post = (action: string, body: unknown = {}) =>
    api.request<Record<string, unknown>>('POST', `/v1/sandboxes/${sandbox.sandbox_id}/${action}`, body);
  try {
    expect(sandbox).toMatchObject({
      status: 'running',
      object_storage_single: { slot: 0, state: 'active', uri: 's3://data/', mount_point: '/mnt/data' },
      object_storage_direct_mount: true,
      object_storage_s3fs_path: '/opt/my-s3fs',
    });
    expect(await run('cat /mnt/data/greeting; echo inside > /mnt/data/note')).toBe('hello');
    expect(s3.read('data', 'note')).toBe('inside\n');
    await post('pause');
    expect((await post('resume')).body.data).toMatchObject({ status: 'running', object_storage_direct_mount: true });
    expect(await run('cat /mnt/data/note')).toBe('inside\n');
  } finally {
    agent.close();
    await api.deleteSandbox(sandbox.sandbox_id);
  }
}, 180_000);

test.each([
  ['a wrong key', () => ({ object_storage: mount({ secret_key: 'wrong' }) }), 'refused the credentials'],
  [
    'an s3fs that the image lacks',
    () => ({ object_storage: mount(), s3fs_executable_path: '/usr/local/bin/s3fs' }),
    'no program /usr/local/bin/s3fs',
  ],
])(
  '%s fails the sandbox with a reason',
  async (_, fields, reason) => {
    const sandbox = await api.createSandbox({ ...asked, ...fields() });
    expect(sandbox).toMatchObject({ status: 'failed', reason: 'object_storage_mount_failed' });
    expect(JSON.stringify(sandbox)).toContain(reason);
    await api.deleteSandbox(sandbox.sandbox_id);
  },
  180_000,
);

test('a template of the platform has no s3fs, so the direct mount is ignored', async () => {
  const sandbox = await api.createSandbox({ ...asked, template: 'base' });
  expect(sandbox).toMatchObject({ status: 'running', object_storage_direct_mount: false });
  await api.deleteSandbox(sandbox.sandbox_id);
});
