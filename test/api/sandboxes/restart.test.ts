import { jest } from '@jest/globals';
import { Event } from '../../../db/core/event.entity.ts';
import type { SandboxId } from '../../../domain/ids.ts';
import { DriverError } from '../../../runtime/driver.ts';
import { type ControlPlane, startControlPlane } from '../../support/control-plane.ts';
import { MemoryDriver } from '../../support/memory-driver.ts';
import { until } from '../../support/until.ts';
import type { Json } from '../contract-client.ts';
import { startApi, type TestApi } from '../test-api.ts';

// Every step runs through Temporal, and test machines are busy.
jest.setTimeout(300_000);

let plane: ControlPlane;
let api: TestApi;
const driver = new MemoryDriver();

beforeAll(async () => {
  plane = await startControlPlane({ driver, planName: 'hobby' });
  api = await startApi({ on: plane });
});
afterAll(async () => {
  await api?.stop();
  await plane?.stop();
});

const small = { cpu_count: 1, memory_mb: 128, storage_gb: 1 };
const send = (path: string, body?: Json, more = {}) => api.send(api.root, 'POST', `/v1/sandboxes${path}`, body, more);
const create = async (body: Json = {}): Promise<SandboxId> => {
  const reply = await send('', { ...small, ...body });
  expect([reply.status, reply.body.error]).toEqual([201, undefined]);
  return reply.body.data.sandbox_id;
};
const read = async (id: SandboxId): Promise<Json> => (await api.send(api.root, 'GET', `/v1/sandboxes/${id}`)).body.data;
const isCalled = (call: string) => until(() => driver.calls.includes(call));
const readEvents = async (id: SandboxId) => {
  const events = await plane.orm.em.fork().find(Event, { objectId: id }, { orderBy: { sequence: 'asc' } });
  return events.map(({ type }) => type);
};
const remove = async (id: SandboxId) => {
  expect((await api.send(api.root, 'DELETE', `/v1/sandboxes/${id}`)).status).toBe(202);
  await until(async () => (await api.send(api.root, 'GET', `/v1/sandboxes/${id}`)).status === 404);
};

test.each(['running', 'paused'])(
  'a %s sandbox is started again on its disk, with a new running phase',
  async (from) => {
    const id = await create({ timeout: 300 });
    if (from === 'paused') await send(`/${id}/pause`);
    const before = await read(id);
    const restarted = await send(`/${id}/restart`);
    expect([restarted.status, restarted.body.error]).toEqual([200, undefined]);
    expect(restarted.body.data).toMatchObject({
      sandbox_id: id,
      status: 'running',
      reason: 'restarted',
      paused_at: null,
    });
    expect(Date.parse(restarted.body.data.timeout_at)).toBeGreaterThan(Date.parse(before.started_at) + 300_000);
    expect(restarted.body.data.started_at).toBe(before.started_at);
    expect(driver.calls).toContain(`restart ${id}`);
    const paused = from === 'paused' ? ['sandbox.paused'] : [];
    expect(await readEvents(id)).toEqual(['sandbox.created', 'sandbox.started', ...paused, 'sandbox.restarted']);
    // A second time: the sandbox works like any other.
    expect((await send(`/${id}/pause`)).status).toBe(200);
    expect((await send(`/${id}/resume`)).body.data).toMatchObject({ status: 'running', reason: 'user_requested' });
    await remove(id);
  },
);

test('in every other state it is refused with a code', async () => {
  const id = await create();
  let release = () => {};
  driver.holds.set(
    'resume',
    new Promise((resolve) => {
      release = resolve;
    }),
  );
  await send(`/${id}/pause`);
  await send(`/${id}/resume`, { is_async: true });
  expect(await send(`/${id}/restart`)).toMatchObject({ status: 409, body: { code: 'sandbox_busy' } });
  driver.holds.delete('resume');
  release();
  await until(async () => (await read(id)).status === 'running');
  await send(`/${id}/terminate`);
  expect(await send(`/${id}/restart`)).toMatchObject({ status: 409, body: { code: 'sandbox_ended' } });
  await remove(id);
  expect(await send(`/${id}/restart`)).toMatchObject({ status: 404, body: { code: 'not_found' } });
});

test('a sandbox of another account is not found', async () => {
  const id = await create();
  const stranger = await api.addAccount();
  const reply = await api.send(stranger, 'POST', `/v1/sandboxes/${id}/restart`);
  expect(reply).toMatchObject({ status: 404, body: { code: 'not_found' } });
  expect(driver.calls).not.toContain(`restart ${id}`);
  await remove(id);
});

test('a restart that is refused before anything was ended does not affect the processes', async () => {
  const id = await create();
  for (const status of ['running', 'paused']) {
    if (status === 'paused') await send(`/${id}/pause`);
    driver.failNext.set('startable', new DriverError('host_disk_full', "The host's disk is full"));
    expect(await send(`/${id}/restart`)).toMatchObject({ status: 503, body: { code: 'host_disk_full' } });
    expect(await read(id)).toMatchObject({ status });
    expect(driver.states.get(id)).toBe(status);
  }
  expect(driver.calls).not.toContain(`restart ${id}`);
  expect((await send(`/${id}/resume`)).status).toBe(200);
  await remove(id);
});

test.each(['running', 'paused'])('a failed restart of a %s sandbox leaves it paused, with its disk', async (from) => {
  const id = await create();
  if (from === 'paused') await send(`/${id}/pause`);
  driver.failNext.set('restart', new DriverError('start_failed', 'The disk could not be mounted'));
  expect(await send(`/${id}/restart`)).toMatchObject({ status: 409, body: { code: 'restart_failed' } });
  expect(await read(id)).toMatchObject({ status: 'paused', reason: 'restart_failed' });
  expect(await plane.row(id)).toMatchObject({ holdsCompute: false, holdsDisk: true });
  expect((await readEvents(id)).at(-1)).toBe('sandbox.paused');
  expect((await send(`/${id}/restart`)).body.data).toMatchObject({ status: 'running', reason: 'restarted' });
  await remove(id);
});

test('a restart of a paused sandbox is admitted like a resume; a running one already counts', async () => {
  const paused = await create();
  await send(`/${paused}/pause`);
  const others: SandboxId[] = [];
  for (;;) {
    expect(others.length).toBeLessThan(50);
    const reply = await send('', small);
    if (reply.status !== 201) {
      expect(reply.body.code).toBe('concurrent_limit_reached');
      break;
    }
    others.push(reply.body.data.sandbox_id);
  }
  expect(await send(`/${paused}/restart`)).toMatchObject({ status: 429, body: { code: 'concurrent_limit_reached' } });
  expect(await read(paused)).toMatchObject({ status: 'paused', reason: 'user_requested' });
  expect(driver.states.get(paused)).toBe('paused');
  expect((await send(`/${others[0]!}/restart`)).status).toBe(200);
  for (const id of [paused, ...others]) await remove(id);
});

test('mounts need credentials again, unless the sandbox may run without them', async () => {
  const mount = { uri: 's3://data', mount_point: '/mnt/data', access_key: 'KEY', secret_key: 'SECRET', region: 'eu' };
  const id = await create({ object_storage: [mount] });
  expect(await send(`/${id}/restart`)).toMatchObject({
    status: 409,
    body: { code: 'object_storage_credentials_required' },
  });
  expect(driver.calls).not.toContain(`require startable ${id}`);
  const given = await send(`/${id}/restart`, { object_storage: { mounts: [mount] } });
  expect([given.status, given.body.error]).toEqual([200, undefined]);
  expect(driver.storage.get(id)!.credentials[0]).toMatchObject({ accessKey: 'KEY' });
  expect((await send(`/${id}/restart`, { best_effort_oss: true })).status).toBe(200);
  expect(driver.storage.get(id)).toMatchObject({ bestEffort: true, credentials: {} });
  await remove(id);
});

test('a repeated request with the same Idempotency-Key restarts once', async () => {
  const id = await create();
  const key = { headers: { 'idempotency-key': `restart-${id}` } };
  const first = await send(`/${id}/restart`, {}, key);
  const second = await send(`/${id}/restart`, {}, key);
  expect([first.status, second.status]).toEqual([200, 200]);
  expect(driver.calls.filter((call) => call === `restart ${id}`)).toHaveLength(1);
  await remove(id);
});

test('a termination overtakes a current restart', async () => {
  const id = await create();
  driver.holds.set('restart', new Promise(() => {}));
  const restarted = send(`/${id}/restart`);
  await isCalled(`restart ${id}`);
  expect((await send(`/${id}/terminate`)).status).toBe(202);
  driver.holds.delete('restart');
  expect(await restarted).toMatchObject({ status: 409, body: { code: 'sandbox_ended' } });
  await until(async () => (await read(id)).status === 'terminated');
  await remove(id);
});

test('a resume whose processes do not answer names this route, and keeps the memory', async () => {
  const id = await create();
  await send(`/${id}/pause`);
  const silent = 'Start it anew with POST /v1/sandboxes/{sandbox_id}/restart';
  driver.failNext.set('resume', new DriverError('agent_not_answering', silent));
  expect(await send(`/${id}/resume`)).toMatchObject({
    status: 409,
    body: { code: 'agent_not_answering', error: silent },
  });
  expect(await plane.row(id)).toMatchObject({ status: 'paused', reason: 'resume_failed', holdsCompute: true });
  expect((await send(`/${id}/restart`)).body.data).toMatchObject({ status: 'running', reason: 'restarted' });
  await remove(id);
});
