import { AppError } from '../../../domain/errors.ts';
import type { SandboxId } from '../../../domain/ids.ts';
import { startApi, type TestApi } from '../test-api.ts';

let api: TestApi;
let id: SandboxId;
beforeAll(async () => {
  api = await startApi();
});
beforeEach(async () => {
  id = (await api.send(api.root, 'POST', '/v1/sandboxes', {})).body.data.sandbox_id;
  api.commands.calls.length = 0;
});
afterEach(async () => {
  api.commands.failNext = null;
  await api.send(api.root, 'DELETE', `/v1/sandboxes/${id}`);
});
afterAll(() => api.stop());

const post = (action: string, body?: unknown) => api.send(api.root, 'POST', `/v1/sandboxes/${id}/${action}`, body);
const put = (body?: unknown) => api.send(api.root, 'PUT', `/v1/sandboxes/${id}`, body);
const read = async () => (await api.send(api.root, 'GET', `/v1/sandboxes/${id}`)).body.data;

describe('timeouts', () => {
  test('PUT raises it and returns only a message', async () => {
    const reply = await put({ timeout: 600 });
    expect([reply.status, reply.body.data]).toEqual([200, undefined]);
    expect(reply.body.message).toContain('600');
    expect((await read()).timeout).toBe(600);
    expect((await put({ timeout: 600 })).body.code).toBe('timeout_not_raised');
  });

  test('POST sets it, also to a shorter one, and returns the result', async () => {
    const { status, body } = await post('timeout', { timeout: 120 });
    expect(status).toBe(200);
    const now = await read();
    expect(body.data).toEqual({
      timeout: 120,
      timeout_at: now.timeout_at,
      remaining_time: expect.any(Number),
      applies_to: 'current_phase',
      note: expect.any(String),
    });
    expect(body.data.remaining_time).toBeGreaterThan(100);
    expect(body.data.remaining_time).toBeLessThanOrEqual(120);
    expect(body.message).toEqual(expect.any(String));
  });

  test('POST on a paused sandbox sets it for the next phase', async () => {
    await post('pause');
    const { body } = await post('timeout', { timeout: 900 });
    expect(body.data).toMatchObject({ timeout: 900, timeout_at: null, remaining_time: null, applies_to: 'next_phase' });
  });

  test.each([
    [undefined, 'validation_failed'],
    [{}, 'validation_failed'],
    [{ timeout: null }, 'validation_failed'],
    [{ timeout: '600' }, 'validation_failed'],
    [{ timeout: 59 }, 'validation_failed'],
    [{ timeout: 600.5 }, 'validation_failed'],
    [{ timeout: 1e15 }, 'validation_failed'],
    [{ timeout: 3601 }, 'plan_limit_exceeded'],
  ])('%j is 400 %s on both', async (body, code) => {
    for (const reply of [await put(body), await post('timeout', body)]) {
      expect([reply.status, reply.body.code]).toEqual([400, code]);
    }
    expect(api.commands.calls).toEqual([]);
  });
});

describe('connect', () => {
  test('keeps the timeout when none is given, and otherwise sets it', async () => {
    const kept = await post('connect');
    expect(kept.body.data).toMatchObject({ sandbox_id: id, timeout: 300, envd_access_token: `token-of-${id}` });
    const given = await post('connect', { timeout: 90 });
    expect(given.body.data.timeout).toBe(90);
    expect((await post('connect', { timeout: null })).body.data.timeout).toBe(90);
    expect(api.commands.calls).toEqual(['connect null', 'connect 90', 'connect null']);
  });

  test.each([
    [{ timeout: 10 }, 'validation_failed'],
    [{ timeout: 'long' }, 'validation_failed'],
    [{ timeout: 3601 }, 'plan_limit_exceeded'],
  ])('%j is 400 %s', async (body, code) => {
    const reply = await post('connect', body);
    expect([reply.status, reply.body.code]).toEqual([400, code]);
  });
});

describe('pause and resume', () => {
  test('sync returns the object after the change', async () => {
    expect((await post('pause')).body.data).toMatchObject({ sandbox_id: id, status: 'paused' });
    expect((await post('resume', {})).body.data).toMatchObject({ sandbox_id: id, status: 'running' });
    expect(api.commands.calls).toEqual(['pause and wait', 'resume and wait']);
  });

  test('async is answered during the change', async () => {
    expect((await post('pause', { is_async: true })).body.data.status).toBe('pausing');
    await api.commands.life.pause(id, 'user_requested', new Date(), true);
    const resumed = await post('resume', { is_async: true, best_effort_oss: true, object_storage: null });
    expect(resumed.body.data).toEqual({ sandbox_id: id, status: 'resuming', message: expect.any(String) });
    expect(api.commands.calls).toEqual(['pause only', 'resume only']);
  });

  test.each(['pause', 'resume'])('%s with an invalid flag is 400', async (action) => {
    expect((await post(action, { is_async: 'yes' })).body.code).toBe('validation_failed');
  });
});

describe('the end', () => {
  test('terminate: 202, then 200 for a terminated one; the sandbox stays readable', async () => {
    const first = await post('terminate');
    expect(first.status).toBe(202);
    expect(first.body.data).toEqual({ sandbox_id: id, status: 'termination_in_progress', note: expect.any(String) });
    expect(first.body.message).toEqual(expect.any(String));
    const second = await post('terminate');
    expect(second.status).toBe(200);
    expect(second.body.data).toEqual({ sandbox_id: id, status: 'terminated', note: expect.any(String) });
    expect(second.body.message).toContain('already');
    expect((await read()).status).toBe('terminated');
  });

  test('DELETE: 202, then 404 everywhere', async () => {
    const reply = await api.send(api.root, 'DELETE', `/v1/sandboxes/${id}`);
    expect(reply.status).toBe(202);
    expect(reply.body.data).toEqual({ sandbox_id: id, status: 'deletion_in_progress', note: expect.any(String) });
    expect((await api.send(api.root, 'DELETE', `/v1/sandboxes/${id}`)).status).toBe(404);
    expect((await api.send(api.root, 'GET', `/v1/sandboxes/${id}`)).status).toBe(404);
    expect((await post('terminate')).status).toBe(404);
  });

  test.each(['true', 'false', '1', ''])('both take ?force=%s', async (force) => {
    expect((await post(`terminate?force=${force}`)).status).toBe(202);
    expect((await api.send(api.root, 'DELETE', `/v1/sandboxes/${id}?force=${force}`)).status).toBe(202);
  });

  test('an invalid force is 400', async () => {
    expect((await post('terminate?force=very')).body.code).toBe('validation_failed');
  });
});

test.each([
  ['pause', 'sandbox_not_running', 409],
  ['pause', 'pause_failed', 409],
  ['pause', 'sandbox_busy', 409],
  ['pause', 'sandbox_ended', 409],
  ['pause', 'too_many_requests', 429],
  ['pause', 'temporarily_unavailable', 503],
  ['resume', 'sandbox_not_paused', 409],
  ['resume', 'resume_failed', 409],
  ['resume', 'concurrent_limit_reached', 429],
  ['resume', 'no_capacity', 503],
  ['resume', 'account_suspended', 403],
  ['connect', 'sandbox_ended', 409],
  ['connect', 'resume_failed', 409],
  ['connect', 'concurrent_limit_reached', 429],
  ['connect', 'no_capacity', 503],
  ['timeout', 'timeout_already_passed', 400],
  ['timeout', 'sandbox_ended', 409],
  ['terminate', 'temporarily_unavailable', 503],
] as const)('%s that is refused with %s answers %d with that code', async (action, code, status) => {
  api.commands.failNext = new AppError(code, 'why it is refused');
  const reply = await post(action, action === 'timeout' ? { timeout: 600 } : undefined);
  expect([reply.status, reply.body.code, reply.body.error]).toEqual([status, code, 'why it is refused']);
});
