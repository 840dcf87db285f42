import { jest } from '@jest/globals';
import type { SandboxId } from '../../../domain/ids.ts';
import { DriverError } from '../../../runtime/driver.ts';
import { type ControlPlane, startControlPlane } from '../../support/control-plane.ts';
import { MemoryDriver } from '../../support/memory-driver.ts';
import { until } from '../../support/until.ts';
import type { Json } from '../contract-client.ts';
import { startApi, type TestApi } from '../test-api.ts';
import { type E2bReply, sendE2b } from './e2b-client.ts';

// Every step runs through Temporal, and test machines are busy.
jest.setTimeout(300_000);

// The API with the real workflow, worker and database, but without containers.
let plane: ControlPlane;
let api: TestApi;
const driver = new MemoryDriver();

beforeAll(async () => {
  plane = await startControlPlane({ driver, planName: 'team' });
  api = await startApi({ on: plane });
});
afterAll(async () => {
  await api?.stop();
  await plane?.stop();
});

const send = (method: string, path: string, body?: Json): Promise<E2bReply> =>
  sendE2b(api, api.root, method, path, body === undefined ? {} : { body });

async function create(fields: Json = {}): Promise<SandboxId> {
  const { status, body } = await send('POST', '/v2/sandboxes', { templateID: 'base', ...fields });
  expect(status).toBe(201);
  return body.sandboxID;
}

const read = (id: SandboxId) => send('GET', `/sandboxes/${id}`);
const isAbsent = async (id: SandboxId) => (await read(id)).status === 404;

test('a sandbox is created, paused, connected to and killed', async () => {
  const id = await create({ timeout: 100 });
  expect((await send('POST', `/sandboxes/${id}/resume`)).status).toBe(409);
  expect((await send('POST', `/sandboxes/${id}/pause`)).status).toBe(204);
  expect(driver.states.get(id)).toBe('paused');
  expect((await send('POST', `/sandboxes/${id}/pause`)).status).toBe(409);
  expect((await send('POST', `/sandboxes/${id}/timeout`, { timeout: 9 })).status).toBe(404);
  expect((await send('POST', `/sandboxes/${id}/connect`, { timeout: 500 })).status).toBe(201);
  expect(driver.states.get(id)).toBe('running');
  const { body } = await read(id);
  expect(body.state).toBe('running');
  const leftMs = Date.parse(body.endAt) - Date.now();
  expect(leftMs).toBeGreaterThan(100_000);
  expect(leftMs).toBeLessThanOrEqual(500_000);
  expect((await send('POST', `/sandboxes/${id}/connect`, { timeout: 20 })).status).toBe(200);
  expect((await read(id)).body.endAt).toBe(body.endAt);
  expect((await send('DELETE', `/sandboxes/${id}`)).status).toBe(204);
  expect(await isAbsent(id)).toBe(true);
  expect((await send('DELETE', `/sandboxes/${id}`)).status).toBe(404);
  expect((await send('POST', `/sandboxes/${id}/connect`, { timeout: 20 })).status).toBe(404);
});

test('a connect without the memory starts new processes on the disk', async () => {
  const id = await create();
  await send('POST', `/sandboxes/${id}/pause`);
  const run = driver.runs.get(id);
  expect((await send('POST', `/v2/sandboxes/${id}/connect`, { memory: false })).status).toBe(201);
  expect(driver.states.get(id)).toBe('running');
  expect(driver.runs.get(id)).not.toBe(run);
  const logs = (await send('GET', `/sandboxes/${id}/logs`)).body.logEntries;
  expect(logs.map((entry: Json) => entry.fields.event)).toContain('sandbox.restarted');
  await send('DELETE', `/sandboxes/${id}`);
});

test.each([
  ['a create', (): Promise<SandboxId> => create({ timeout: 0 })],
  [
    'a change',
    async () => {
      const id = await create({ timeout: 300 });
      expect((await send('POST', `/sandboxes/${id}/timeout`, { timeout: 0 })).status).toBe(204);
      return id;
    },
  ],
])('a timeout of 0 seconds in %s ends a sandbox', async (_what, make) => {
  const id = await make();
  await until(() => isAbsent(id));
  const { data } = (await api.send(api.root, 'GET', `/v1/sandboxes/${id}`)).body;
  expect(data.reason).toBe('timeout');
});

test('autoPause pauses a sandbox at its timeout, and a connect resumes it', async () => {
  const id = await create({ timeout: 2, autoPause: true });
  await until(async () => (await read(id)).body.state === 'paused');
  expect((await send('POST', `/v2/sandboxes/${id}/connect`, { timeout: 60 })).status).toBe(201);
  expect((await read(id)).body).toMatchObject({ state: 'running', lifecycle: { onTimeout: 'pause' } });
  await send('DELETE', `/sandboxes/${id}`);
});

test('a template whose sandboxes do not start is an error with the reason, and leaves none behind', async () => {
  driver.failNext.set('create', new DriverError('not_ready', 'The sandbox was not ready in time'));
  const { status, body } = await send('POST', '/v2/sandboxes', { templateID: 'base' });
  expect([status, body.message]).toEqual([
    400,
    'No sandbox of this template starts: The sandbox was not ready in time',
  ]);
  expect((await send('GET', '/v2/sandboxes')).body).toEqual([]);
});
