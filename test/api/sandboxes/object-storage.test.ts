import { jest } from '@jest/globals';
import type { SandboxId } from '../../../domain/ids.ts';
import type { MountSlot } from '../../../domain/sandboxes/object-storage.ts';
import { EncryptionCodec } from '../../../platform/temporal/payload-codec.ts';
import { DriverError } from '../../../runtime/driver.ts';
import { type ControlPlane, startControlPlane } from '../../support/control-plane.ts';
import { MemoryDriver } from '../../support/memory-driver.ts';
import { until } from '../../support/until.ts';
import type { Json } from '../contract-client.ts';
import { startApi, type TestApi } from '../test-api.ts';

// Every step runs through Temporal, and test machines are busy.
jest.setTimeout(300_000);

// The API with the real workflow, worker and database, but without containers.
let plane: ControlPlane;
let api: TestApi;
const driver = new MemoryDriver();
const secrets = ['ACCESS-KEY-5kQ', 'secret/key+Zp9', 'session-token-Wd3', 'NEXT-KEY-2Lm', 'next/secret+Rt7'] as const;
const [accessKey, secretKey, sessionToken, nextAccessKey, nextSecretKey] = secrets;

beforeAll(async () => {
  plane = await startControlPlane({ driver, planName: 'team' });
  api = await startApi({ on: plane });
});
afterAll(async () => {
  await api?.stop();
  await plane?.stop();
});

const mount = (fields: Json = {}): Json => ({
  uri: 's3://data/reports',
  mount_point: '/mnt/data',
  access_key: accessKey,
  secret_key: secretKey,
  region: 'eu-central-1',
  ...fields,
});
const shortLived = (fields: Json = {}) => mount({ session_token: sessionToken, ...fields });
const slot = (fields: Json = {}): Json => ({
  slot: 0,
  state: 'active',
  uri: 's3://data/reports',
  mount_point: '/mnt/data',
  region: 'eu-central-1',
  ...fields,
});
const free = (number: number) => ({ slot: number, state: 'free', uri: '', mount_point: '' });
const small = { cpu_count: 1, memory_mb: 128, storage_gb: 1 };
const post = (path: string, body?: Json, more = {}) => api.send(api.root, 'POST', `/v1/sandboxes${path}`, body, more);
const read = async (id: string): Promise<Json> => (await api.send(api.root, 'GET', `/v1/sandboxes/${id}`)).body.data;

async function make(objectStorage: Json, body: Json = {}): Promise<Json> {
  const reply = await post('', { ...small, object_storage: objectStorage, ...body });
  expect([reply.status, reply.body.error]).toEqual([201, undefined]);
  return reply.body.data;
}
async function makePaused(objectStorage: Json): Promise<SandboxId> {
  const { sandbox_id: id } = await make(objectStorage);
  expect((await post(`/${id}/pause`)).status).toBe(200);
  return id;
}
const resume = (id: string, body?: Json) => post(`/${id}/resume`, body);
const patched = async (id: string, patch: Json, more: Json = {}): Promise<Json> => {
  const reply = await resume(id, { object_storage: patch, ...more });
  expect([reply.status, reply.body.error]).toEqual([200, undefined]);
  return reply.body.data.object_storage;
};

describe('direct mounts', () => {
  const ofCustom = async (more: Json = {}) => ({
    template: await api.addTemplate({ templateSource: 'custom', accountId: api.root.accountId }),
    object_storage_direct_mount: true,
    ...more,
  });

  test("make the host use the image's own s3fs, at a path or from PATH", async () => {
    for (const [path, s3fsPath] of [
      ['', 's3fs'],
      ['/opt/s3fs', '/opt/s3fs'],
    ] as const) {
      const made = await make(mount(), await ofCustom({ s3fs_executable_path: path }));
      const shown = { object_storage_direct_mount: true, object_storage_s3fs_path: path };
      expect(made).toMatchObject({ status: 'running', object_storage_single: slot(), ...shown });
      expect(await read(made.sandbox_id)).toMatchObject(shown);
      const { body } = await api.send(api.root, 'GET', '/v1/sandboxes?limit=1');
      expect(body.data.sandboxes[0]).toMatchObject({ sandbox_id: made.sandbox_id, ...shown });
      expect(driver.storage.get(made.sandbox_id)).toMatchObject({ direct: { s3fsPath } });
    }
  });

  test('refuse a session token at a create or a resume, and a sandbox without internet access', async () => {
    const refusals = [
      await post('', { ...small, ...(await ofCustom()), object_storage: shortLived() }),
      await post('', { ...small, ...(await ofCustom({ allow_internet_access: false })), object_storage: mount() }),
    ];
    const made = await make(mount(), await ofCustom());
    expect((await post(`/${made.sandbox_id}/pause`)).status).toBe(200);
    const changes = [{ mount_point: '/mnt/data', disable: true }, shortLived({ mount_point: '/mnt/other' })];
    refusals.push(await resume(made.sandbox_id, { object_storage: { mounts: changes } }));
    expect(refusals.map(({ status, body }) => [status, body.code, body.details[0].path])).toEqual([
      [400, 'direct_mount_not_possible', 'object_storage.session_token'],
      [400, 'direct_mount_not_possible', 'object_storage_direct_mount'],
      [400, 'direct_mount_not_possible', 'object_storage.mounts.1.session_token'],
    ]);
  });
});

describe('a create with mounts', () => {
  test('shows one mount in the object and in the list, and passes the credentials to its host', async () => {
    const made = await make(mount());
    const shown = { object_storage: [slot()], object_storage_single: slot() };
    expect(made).toMatchObject({ status: 'running', ...shown, object_storage_direct_mount: false });
    expect(await read(made.sandbox_id)).toMatchObject(shown);
    const { body } = await api.send(api.root, 'GET', '/v1/sandboxes?limit=1');
    expect(body.data.sandboxes[0]).toMatchObject({ sandbox_id: made.sandbox_id, ...shown });
    expect(driver.storage.get(made.sandbox_id)).toEqual({
      slots: [expect.objectContaining({ slot: 0, mountPoint: '/mnt/data' })],
      credentials: { 0: { accessKey, secretKey, sessionToken: null } },
      bestEffort: false,
    });
  });

  test('numbers several in their order, and marks those with a session token', async () => {
    const oss = { uri: 'oss://bucket', mount_point: '/mnt//oss/', region: null, endpoint: 'https://oss.example.com' };
    const made = await make([shortLived(), mount(oss)], { is_async: true });
    await until(async () => (await read(made.sandbox_id)).status === 'running');
    expect(await read(made.sandbox_id)).toMatchObject({
      object_storage: [
        slot({ short_lived: true }),
        { slot: 1, state: 'active', uri: 'oss://bucket', mount_point: '/mnt/oss', endpoint: oss.endpoint },
      ],
      object_storage_single: null,
    });
  });

  test('without any shows none', async () => {
    for (const none of [null, []]) {
      expect(await make(none)).toMatchObject({ object_storage: null, object_storage_single: null });
    }
  });

  test.each<[string, Json, string]>([
    ['no bucket in the uri', mount({ uri: 's3:///x' }), 'object_storage.uri'],
    ['another scheme', mount({ uri: 'gs://bucket/x' }), 'object_storage.uri'],
    ['a path that climbs', mount({ uri: 's3://data/../x' }), 'object_storage.uri'],
    ['neither region nor endpoint', mount({ region: null }), 'object_storage.region'],
    ['a region with a comma', mount({ region: 'eu,url=http://x' }), 'object_storage.region'],
    ['an endpoint that is no URL', mount({ endpoint: 'minio' }), 'object_storage.endpoint'],
    ['an endpoint with a comma', mount({ endpoint: 'http://a,passwd_file=x' }), 'object_storage.endpoint'],
    ['an endpoint with a user', mount({ endpoint: 'http://u:p@minio.example.com' }), 'object_storage.endpoint'],
    ['a private endpoint', mount({ endpoint: 'http://192.168.1.1:9000' }), 'object_storage.endpoint'],
    ['a loopback endpoint', mount({ endpoint: 'http://[::1]:9000' }), 'object_storage.endpoint'],
    ['the metadata service', mount({ endpoint: 'http://169.254.169.254' }), 'object_storage.endpoint'],
    [
      'the second of two at a private endpoint',
      [mount(), mount({ mount_point: '/mnt/b', endpoint: 'http://192.168.1.1' })],
      'object_storage.1.endpoint',
    ],
    ['a loopback endpoint as one number', mount({ endpoint: 'http://2130706433' }), 'object_storage.endpoint'],
    ['a relative mount point', mount({ mount_point: 'data' }), 'object_storage.mount_point'],
    ['the root', mount({ mount_point: '/' }), 'object_storage.mount_point'],
    ['a mount point that climbs', mount({ mount_point: '/mnt/../etc' }), 'object_storage.mount_point'],
    ['a mount point in /proc', mount({ mount_point: '/proc/1' }), 'object_storage.mount_point'],
    ["a mount point over the agent's folder", mount({ mount_point: '/run' }), 'object_storage.mount_point'],
    ['no credentials', mount({ secret_key: undefined }), 'object_storage.secret_key'],
    ['a credential with a line break', mount({ access_key: 'a\nb' }), 'object_storage.access_key'],
  ])('refuses %s, and names the field', async (_, objectStorage, path) => {
    const reply = await post('', { ...small, object_storage: objectStorage });
    expect([reply.status, reply.body.code]).toEqual([400, 'validation_failed']);
    expect(reply.body.details.map((detail: Json) => detail.path)).toContain(path);
    for (const secret of secrets) expect(reply.text).not.toContain(secret);
  });

  test('refuses two mounts at one place, or one within another', async () => {
    for (const other of ['/mnt/data', '/mnt/data/', '/mnt/data/below', '/mnt']) {
      const reply = await post('', { ...small, object_storage: [mount(), mount({ mount_point: other })] });
      expect([reply.status, reply.body.details?.[0].path]).toEqual([400, 'object_storage.1.mount_point']);
    }
  });

  test('fails with the reason when a mount fails', async () => {
    driver.failNext.set(
      'create',
      new DriverError('object_storage_mount_failed', 'the storage refused the credentials'),
    );
    expect(await make(mount())).toMatchObject({
      status: 'failed',
      reason: 'object_storage_mount_failed',
      failure: { message: 'the storage refused the credentials' },
    });
  });
});

describe('a resume', () => {
  test('without a patch, or with an empty one, keeps the mounts and needs no credentials', async () => {
    for (const body of [undefined, {}, { object_storage: null }, { object_storage: {} }]) {
      const id = await makePaused(mount());
      expect((await resume(id, body)).body.data).toMatchObject({ status: 'running', object_storage: [slot()] });
      expect(driver.storage.get(id)).toMatchObject({ slots: [{ state: 'active' }], credentials: {} });
    }
  });

  test('with remove_all frees the slots of active mounts, and with disable_all keeps them', async () => {
    const two = [mount(), mount({ mount_point: '/mnt/two' })];
    const removed = await makePaused(two);
    expect(await patched(removed, { remove_all: true })).toBeNull();
    const disabled = await makePaused(two);
    const off = [slot({ state: 'disabled' }), slot({ slot: 1, mount_point: '/mnt/two', state: 'disabled' })];
    expect(await patched(disabled, { disable_all: true })).toEqual(off);
    await post(`/${disabled}/pause`);
    expect(await patched(disabled, { remove_all: true })).toEqual(off);
  });

  test('changes mounts by their path, and gives a freed slot to the next', async () => {
    const id = await makePaused([mount(), mount({ mount_point: '/mnt/two' }), mount({ mount_point: '/mnt/three' })]);
    const replaced = shortLived({ uri: 's3://other', mount_point: '/mnt/three', access_key: nextAccessKey });
    const changes = [{ mount_point: '/mnt/data', delete: true }, { mount_point: '/mnt/two', disable: true }, replaced];
    const three = slot({ slot: 2, uri: 's3://other', mount_point: '/mnt/three', short_lived: true });
    const two = slot({ slot: 1, mount_point: '/mnt/two', state: 'disabled' });
    expect(await patched(id, { mounts: changes })).toEqual([free(0), two, three]);
    expect(driver.storage.get(id)!.credentials).toEqual({
      2: { accessKey: nextAccessKey, secretKey, sessionToken },
    });
    await post(`/${id}/pause`);
    const longLived = mount({ uri: 's3://other', mount_point: '/mnt/three' });
    const again = [mount({ mount_point: '/mnt/four' }), mount({ mount_point: '/mnt/two' }), longLived];
    expect(await patched(id, { mounts: again })).toEqual([
      slot({ mount_point: '/mnt/four' }),
      { ...two, state: 'active' },
      slot({ slot: 2, uri: 's3://other', mount_point: '/mnt/three' }),
    ]);
  });

  test('gives mounts to a sandbox that had none', async () => {
    const id = await makePaused(null);
    expect(await patched(id, { mounts: [mount()] })).toEqual([slot()]);
    expect(await read(id)).toMatchObject({ object_storage_single: slot() });
  });

  test.each<[string, Json]>([
    ['two modes at once', { remove_all: true, disable_all: true }],
    ['a mode beside changes', { remove_all: true, mounts: [] }],
    ['a change of a mount that is not there', { mounts: [{ mount_point: '/nowhere', delete: true }] }],
    ['two changes of one mount', { mounts: [mount(), { mount_point: '/mnt/data', disable: true }] }],
    ['a mount without credentials', { mounts: [mount({ access_key: undefined })] }],
    ['a mount at a private address', { mounts: [mount({ endpoint: 'http://10.0.0.1' })] }],
    ['a mount within another', { mounts: [mount({ mount_point: '/mnt/data/in' })] }],
  ])('refuses %s, and the sandbox stays paused', async (_, patch) => {
    const id = await makePaused(mount());
    const reply = await resume(id, { object_storage: patch });
    expect([reply.status, reply.body.code]).toEqual([400, 'validation_failed']);
    expect(reply.text).not.toContain(secretKey);
    expect(await read(id)).toMatchObject({ status: 'paused', object_storage: [slot()] });
  });

  test('names the place in the patch of a mount at a private address', async () => {
    const id = await makePaused(mount());
    const changes = [
      { mount_point: '/mnt/data', disable: true },
      mount({ endpoint: 'http://10.0.0.1', mount_point: '/b' }),
    ];
    const reply = await resume(id, { object_storage: { mounts: changes } });
    expect([reply.status, reply.body.details[0].path]).toEqual([400, 'object_storage.mounts.1.endpoint']);
  });

  test('of short-lived mounts needs fresh credentials, best effort, or that they are given up', async () => {
    const id = await makePaused(shortLived());
    const refused = { status: 409, body: { code: 'object_storage_credentials_required' } };
    expect(await resume(id)).toMatchObject(refused);
    expect(await resume(id, { is_async: true })).toMatchObject(refused);
    expect(await post(`/${id}/connect`)).toMatchObject(refused);
    const batch = await post('/batch-resume', { sandbox_ids: [id] });
    expect(batch.body.data).toMatchObject({ total: 1, successful: 0, failed: 1 });
    expect(await read(id)).toMatchObject({ status: 'paused', object_storage: [slot({ short_lived: true })] });

    const fresh = { mounts: [shortLived({ access_key: nextAccessKey, secret_key: nextSecretKey })] };
    expect(await patched(id, fresh)).toEqual([slot({ short_lived: true })]);
    expect(driver.storage.get(id)!.credentials).toEqual({
      0: { accessKey: nextAccessKey, secretKey: nextSecretKey, sessionToken },
    });
    await post(`/${id}/pause`);
    expect(await patched(id, {}, { best_effort_oss: true })).toEqual([slot({ short_lived: true })]);
    expect(driver.storage.get(id)).toMatchObject({ bestEffort: true, credentials: {} });
    await post(`/${id}/pause`);
    expect(await patched(id, { disable_all: true })).toEqual([slot({ short_lived: true, state: 'disabled' })]);
    await post(`/${id}/pause`);
    expect((await resume(id)).status).toBe(200);
  });

  test.each(['object_storage_mount_failed', 'object_storage_credentials_required'] as const)(
    'that the host refuses with %s is answered so, and changes nothing',
    async (code) => {
      const id = await makePaused(mount());
      driver.failNext.set('resume', new DriverError(code, 'what the host says'));
      const reply = await resume(id, { object_storage: { disable_all: true } });
      expect(reply).toMatchObject({ status: 409, body: { code, error: 'what the host says' } });
      expect(await read(id)).toMatchObject({ status: 'paused', object_storage: [slot()] });
      driver.failNext.set('resume', new DriverError(code, 'what the host says'));
      expect(await post(`/${id}/connect`)).toMatchObject({ status: 409, body: { code } });
    },
  );
});

test('credentials are in no reply, log, table or workflow history, not even in a decrypted one', async () => {
  const id = await makePaused([shortLived(), mount({ mount_point: '/mnt/two' })]);
  const fresh = shortLived({ access_key: nextAccessKey, secret_key: nextSecretKey });
  expect((await resume(id, { object_storage: { mounts: [fresh] } })).status).toBe(200);

  const history = await plane.client.workflow.getHandle(id).fetchHistory();
  const payloads = payloadsIn(history);
  expect(payloads.length).toBeGreaterThan(5);
  const opened = await new EncryptionCodec(plane.secrets).decode(payloads);
  const readable = opened.map((payload) => Buffer.from(payload.data ?? []).toString());
  expect(readable.join()).toContain('sealed');
  const places: Record<string, string> = { history: readable.join(), log: api.log.join(), row: '' };
  const tables = (await plane.orm.em.fork().execute("select tablename from pg_tables where schemaname = 'public'")) as {
    tablename: string;
  }[];
  for (const { tablename } of tables) {
    const rows = await plane.orm.em.fork().execute(`select t::text as text from "${tablename}" t`);
    places[`table ${tablename}`] = JSON.stringify(rows);
  }
  expect(places['table sandboxes']).toContain('s3://data/reports');
  const found = Object.entries(places).filter(([, text]) => secrets.some((secret) => text.includes(secret)));
  expect(found.map(([place]) => place)).toEqual([]);
  expect(() => plane.secrets.openFor('sbx-another', plane.secrets.sealFor(id, {}))).toThrow();
});

test('a start waits for credentials before its host begins, and can be terminated meanwhile', async () => {
  const slots: MountSlot[] = [
    { slot: 0, state: 'active', uri: 's3://data', mountPoint: '/m', region: 'eu', endpoint: null, shortLived: false },
  ];
  const sandbox = await plane.admit({ objectStorage: slots });
  await plane.commands.start(sandbox, { wait: false });
  await plane.commands.terminate(sandbox, { forget: false });
  expect(driver.calls).not.toContain(`create ${sandbox.sandboxId}`);
});

type EncodedPayload = { metadata?: Record<string, Uint8Array> | null; data?: Uint8Array | null };

/** All payloads of a history. */
function payloadsIn(value: unknown): EncodedPayload[] {
  if (typeof value !== 'object' || value === null || value instanceof Uint8Array) return [];
  const { metadata, data } = value as EncodedPayload;
  const own = data instanceof Uint8Array && metadata && 'encoding' in metadata ? [value as EncodedPayload] : [];
  return [...own, ...Object.values(value).flatMap(payloadsIn)];
}
