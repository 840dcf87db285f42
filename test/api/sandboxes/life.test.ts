import { jest } from '@jest/globals';
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

beforeAll(async () => {
  plane = await startControlPlane({ driver, planName: 'hobby' });
  api = await startApi({ on: plane });
});
afterAll(async () => {
  await api?.stop();
  await plane?.stop();
});

const create = async (body: Json = {}): Promise<Json> => {
  const reply = await api.send(api.root, 'POST', '/v1/sandboxes', {
    cpu_count: 1,
    memory_mb: 128,
    storage_gb: 1,
    ...body,
  });
  expect(reply.status).toBe(201);
  return reply.body.data;
};
const read = async (id: string): Promise<Json> => (await api.send(api.root, 'GET', `/v1/sandboxes/${id}`)).body.data;
const post = (id: string, action: string, body?: Json) =>
  api.send(api.root, 'POST', `/v1/sandboxes/${id}/${action}`, body);
const reaches = (id: string, status: string) => until(async () => (await read(id)).status === status);
const remove = async (id: string) => {
  expect((await api.send(api.root, 'DELETE', `/v1/sandboxes/${id}`)).status).toBe(202);
  await until(async () => (await api.send(api.root, 'GET', `/v1/sandboxes/${id}`)).status === 404);
};

test('from create to 404, each command in its right state and refused in the wrong one', async () => {
  const { sandbox_id: id, ...made } = await create({ timeout: 300 });
  expect(made).toMatchObject({
    status: 'running',
    reason: 'user_requested',
    sandbox_domain_internal: '10.99.0.2:49983',
  });
  expect((await post(id, 'resume')).body.code).toBe('sandbox_not_paused');

  expect((await api.send(api.root, 'PUT', `/v1/sandboxes/${id}`, { timeout: 300 })).body.code).toBe(
    'timeout_not_raised',
  );
  expect((await api.send(api.root, 'PUT', `/v1/sandboxes/${id}`, { timeout: 400 })).status).toBe(200);
  const timed = await post(id, 'timeout', { timeout: 200 });
  expect(timed.body.data).toMatchObject({ timeout: 200, applies_to: 'current_phase' });
  expect((await read(id)).timeout_at).toBe(timed.body.data.timeout_at);

  const paused = await post(id, 'pause');
  expect(paused.body.data).toMatchObject({ status: 'paused', reason: 'user_requested', timeout_at: null });
  expect((await post(id, 'pause')).body.code).toBe('sandbox_not_running');
  expect((await post(id, 'switch-project', { project_id: api.root.projectId })).body.code).toBe('sandbox_not_running');
  expect((await post(id, 'timeout', { timeout: 250 })).body.data).toMatchObject({ applies_to: 'next_phase' });

  const resumed = await post(id, 'resume');
  expect(resumed.body.data).toMatchObject({ status: 'running', timeout: 250, paused_at: null });
  expect(resumed.body.data.resumed_at).toEqual(expect.any(String));

  const ended = await post(id, 'terminate');
  expect([ended.status, ended.body.data.status]).toEqual([202, 'termination_in_progress']);
  await reaches(id, 'terminated');
  expect(await read(id)).toMatchObject({ lifecycle_outcome: 'completed', reason: 'user_requested' });
  for (const [action, body] of [['pause'], ['resume'], ['connect'], ['timeout', { timeout: 600 }]] as const) {
    const refused = await post(id, action, body);
    expect([action, refused.status, refused.body.code]).toEqual([action, 409, 'sandbox_ended']);
  }
  const again = await post(id, 'terminate');
  expect([again.status, again.body.data.status]).toEqual([200, 'terminated']);
  await remove(id);
  expect((await api.send(api.root, 'GET', '/v1/sandboxes')).body.data.sandboxes).toEqual([]);
});

test('async: create, pause and resume are answered during the change', async () => {
  const { sandbox_id: id, status } = await create({ is_async: true });
  expect(['created', 'starting', 'running']).toContain(status);
  await reaches(id, 'running');
  const pausing = await post(id, 'pause', { is_async: true });
  expect(['pausing', 'paused']).toContain(pausing.body.data.status);
  await reaches(id, 'paused');
  const resuming = await post(id, 'resume', { is_async: true });
  expect(resuming.body.data).toEqual({ sandbox_id: id, status: 'resuming', message: expect.any(String) });
  await reaches(id, 'running');
  await remove(id);
});

test('connect resumes a paused sandbox, and its timeout counts from then', async () => {
  const { sandbox_id: id } = await create();
  await post(id, 'pause');
  const { body } = await post(id, 'connect', { timeout: 120 });
  expect(body.data).toMatchObject({ sandbox_id: id, status: 'running', timeout: 120 });
  expect(body.data.remaining_seconds).toBeGreaterThan(100);
  expect((await post(id, 'connect')).body.data).toMatchObject({ status: 'running', timeout: 120 });
  await remove(id);
});

test('a sync create that fails is 201 with status failed and the reason; it can be read, terminated and deleted', async () => {
  driver.failNext.set('create', new DriverError('not_ready', 'The sandbox was not ready in time'));
  const made = await create();
  expect(made).toMatchObject({ status: 'failed', reason: 'not_ready', failure: { message: expect.any(String) } });
  const failed = await read(made.sandbox_id);
  expect(failed).toMatchObject({ status: 'failed', lifecycle_outcome: 'failed', started_at: null });
  expect((await post(made.sandbox_id, 'pause')).status).toBe(409);
  expect((await post(made.sandbox_id, 'terminate')).status).toBe(202);
  await reaches(made.sandbox_id, 'terminated');
  await remove(made.sandbox_id);
});

test('a pause that fails is 409 and the sandbox runs on', async () => {
  const { sandbox_id: id } = await create();
  driver.failNext.set('pause', new DriverError('pause_failed', 'It could not be frozen'));
  const reply = await post(id, 'pause');
  expect([reply.status, reply.body.code]).toEqual([409, 'pause_failed']);
  expect(await read(id)).toMatchObject({ status: 'running', reason: 'pause_failed', pausing_at: null });
  await remove(id);
});

test('a resume is admitted again: on a full plan it is 429 and the sandbox stays paused', async () => {
  const { sandbox_id: id } = await create();
  await post(id, 'pause');
  const others = await Promise.all(Array.from({ length: 10 }, () => create({ is_async: true })));
  try {
    for (const action of ['resume', 'connect']) {
      const refused = await post(id, action);
      expect([action, refused.status, refused.body.code]).toEqual([action, 429, 'concurrent_limit_reached']);
    }
    expect((await read(id)).status).toBe('paused');
  } finally {
    await Promise.all([id, ...others.map((each) => each.sandbox_id)].map(remove));
  }
});

test('100 concurrent creates on a plan of 10 start exactly 10', async () => {
  const replies = await Promise.all(
    Array.from({ length: 100 }, () =>
      api.send(api.root, 'POST', '/v1/sandboxes', { cpu_count: 1, memory_mb: 128, storage_gb: 1 }),
    ),
  );
  const made = replies.filter((reply) => reply.status === 201);
  expect(made).toHaveLength(10);
  for (const reply of made) expect(reply.body.data.status).toBe('running');
  for (const reply of replies) if (reply.status !== 201) expect(reply.body.code).toBe('concurrent_limit_reached');
  await Promise.all(made.map((reply) => remove(reply.body.data.sandbox_id)));
});
