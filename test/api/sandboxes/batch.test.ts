import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { SandboxCommands } from '../../../api/routes/sandboxes/commands.ts';
import { Sandbox } from '../../../db/sandboxes/sandbox.entity.ts';
import { AppError } from '../../../domain/errors.ts';
import type { SandboxId } from '../../../domain/ids.ts';
import type { SandboxStatus } from '../../../domain/sandboxes/state.ts';
import type { Json } from '../contract-client.ts';
import { type Caller, startApi, type TestApi } from '../test-api.ts';

// The decisions of the routes. `batch-life.test.ts` tests batches through Temporal.
let api: TestApi;
let member: Caller;
beforeAll(async () => {
  api = await startApi({ planName: 'enterprise' });
  member = await api.addUser(api.root);
});
afterAll(() => api.stop());

async function addSandbox(status: SandboxStatus = 'running', owner = member): Promise<SandboxId> {
  const { body } = await api.send(owner, 'POST', '/v1/sandboxes', { memory_mb: 128 });
  const { sandbox_id: sandboxId } = body.data;
  if (status !== 'running') await api.orm.em.fork().nativeUpdate(Sandbox, { sandboxId }, { status });
  return sandboxId;
}

const batch = (action: string, ids: readonly string[], more: Json = {}, caller: Caller | null = member) =>
  api.send(caller, 'POST', `/v1/sandboxes/batch-${action}`, { sandbox_ids: ids, ...more });
const readStatus = async (sandboxId: SandboxId) =>
  (await api.orm.em.fork().findOneOrFail(Sandbox, { sandboxId })).status;

test('each one gets its own result, in the requested order; a failure does not affect the others', async () => {
  const ids = [await addSandbox(), await addSandbox('starting'), await addSandbox(), await addSandbox('terminated')];
  const foreign = await addSandbox('running', await api.addAccount());
  const { status, body } = await batch('terminate', [...ids, foreign, 'sbx-none', 'nonsense']);
  expect(status).toBe(202);
  const missing = { status: 'failed', error: 'Sandbox not found', code: 'not_found' };
  expect(body).toMatchObject({
    message: '3 sandboxes are being terminated; 4 failed',
    data: {
      total: 7,
      successful: 3,
      failed: 4,
      results: [
        { sandbox_id: ids[0], status: 'termination_in_progress' },
        {
          sandbox_id: ids[1],
          status: 'failed',
          error: 'The sandbox is starting; wait, or use force',
          code: 'sandbox_busy',
        },
        { sandbox_id: ids[2], status: 'termination_in_progress' },
        { sandbox_id: ids[3], status: 'terminated' },
        { sandbox_id: foreign, ...missing },
        { sandbox_id: 'sbx-none', ...missing },
        { sandbox_id: 'nonsense', ...missing },
      ],
    },
  });
  expect(body.data.results[0]).not.toHaveProperty('error');
  expect(await Promise.all(ids.map(readStatus))).toEqual(['terminated', 'starting', 'terminated', 'terminated']);
  expect(await readStatus(foreign)).toBe('running');
});

test.each([
  ['terminate', 'created', 'sandbox_busy'],
  ['terminate', 'starting', 'sandbox_busy'],
  ['terminate', 'pausing', 'sandbox_busy'],
  ['terminate', 'resuming', 'sandbox_busy'],
  ['delete', 'created', 'sandbox_running'],
  ['delete', 'starting', 'sandbox_running'],
  ['delete', 'running', 'sandbox_running'],
  ['delete', 'pausing', 'sandbox_running'],
  ['delete', 'resuming', 'sandbox_running'],
] as const)('%s of a %s one needs force', async (action, status, code) => {
  const id = await addSandbox(status);
  expect((await batch(action, [id])).body.data.results).toEqual([
    { sandbox_id: id, status: 'failed', error: expect.stringContaining(status), code },
  ]);
  expect(await readStatus(id)).toBe(status);
  const forced = await batch(action, [id], { force: true });
  expect(forced.body).toMatchObject({
    message: `1 sandbox is being ${action}d`,
    data: { total: 1, successful: 1, failed: 0 },
  });
  expect(await readStatus(id)).toBe('terminated');
});

test.each([
  ['terminate', ['running', 'paused', 'terminating', 'failed'], 'termination_in_progress'],
  ['delete', ['paused', 'terminating', 'terminated', 'failed'], 'deletion_in_progress'],
] as const)('%s takes %j without force', async (action, statuses, reported) => {
  const ids = await Promise.all(statuses.map((status) => addSandbox(status)));
  const ended: SandboxId[] = [];
  const endBatch = async (sandboxes: readonly Sandbox[]) => {
    ended.push(...sandboxes.map(({ sandboxId }) => sandboxId));
  };
  const commands: SandboxCommands = Object.create(api.commands, { endBatch: { value: endBatch } });
  const accepting = await startApi({ on: { orm: api.orm, account: { ...api.root, apiKey: api.root.key }, commands } });
  const { body } = await accepting.send(member, 'POST', `/v1/sandboxes/batch-${action}`, { sandbox_ids: ids });
  expect(body.data.results).toEqual(ids.map((id) => ({ sandbox_id: id, status: reported })));
  expect(ended).toEqual(ids);
  await accepting.stop();
});

test('deleted ones answer 404 and are not found by a second batch', async () => {
  const id = await addSandbox();
  expect((await batch('delete', [id], { force: true })).body.data.results[0].status).toBe('deletion_in_progress');
  expect((await api.send(member, 'GET', `/v1/sandboxes/${id}`)).status).toBe(404);
  expect((await batch('delete', [id], { force: true })).body.data.results[0].code).toBe('not_found');
});

test('pause answers at pausing and resume at resuming', async () => {
  const ids = [await addSandbox(), await addSandbox()];
  expect((await batch('pause', ids)).body).toMatchObject({
    message: '2 sandboxes are being paused',
    data: { results: ids.map((id) => ({ sandbox_id: id, status: 'pausing' })) },
  });
  for (const id of ids) await api.orm.em.fork().nativeUpdate(Sandbox, { sandboxId: id }, { status: 'paused' });
  expect((await batch('resume', ids)).body).toMatchObject({
    message: '2 sandboxes are being resumed',
    data: { results: ids.map((id) => ({ sandbox_id: id, status: 'resuming' })) },
  });
});

test('a sandbox with short-lived credentials is not resumed, as in a single resume, and the others are', async () => {
  const ids = [await addSandbox('paused'), await addSandbox('paused')];
  const mount = { slot: 0, state: 'active' as const, uri: 's3://data/', mountPoint: '/mnt/data' };
  const slot = { ...mount, region: 'us-east-1', endpoint: null };
  for (const [index, sandboxId] of ids.entries()) {
    const objectStorage = [{ ...slot, shortLived: index === 0 }];
    await api.orm.em.fork().nativeUpdate(Sandbox, { sandboxId }, { objectStorage });
  }
  const { status, body } = await batch('resume', ids);
  expect([status, body.message]).toEqual([202, '1 sandbox is being resumed; 1 failed']);
  const code = 'object_storage_credentials_required';
  expect(body.data.results).toEqual([
    { sandbox_id: ids[0], status: 'failed', error: expect.stringContaining('/mnt/data'), code },
    { sandbox_id: ids[1], status: 'resuming' },
  ]);
  const alone = await api.send(member, 'POST', `/v1/sandboxes/${ids[0]}/resume`, {});
  expect([alone.status, alone.body.code]).toEqual([409, code]);
  expect(await Promise.all(ids.map(readStatus))).toEqual(['paused', 'resuming']);
});

test('a repeated id is handled and counted once', async () => {
  const id = await addSandbox();
  const calls = api.commands.calls.length;
  const { body } = await batch('terminate', [id, id, id]);
  expect(body.data).toMatchObject({ total: 1, successful: 1, results: [{ sandbox_id: id }] });
  expect(api.commands.calls.slice(calls)).toEqual(['terminate only']);
});

test('an unexpected failure is one result, without internal details', async () => {
  const [broken, fine] = [await addSandbox(), await addSandbox()];
  api.commands.failNext = new Error('secret of the inside');
  const { body } = await batch('pause', [broken, fine]);
  expect(body.data.results).toEqual([
    { sandbox_id: broken, status: 'failed', error: 'An internal error occurred', code: 'internal_error' },
    { sandbox_id: fine, status: 'pausing' },
  ]);
});

test('a batch that cannot be delivered is refused as a whole', async () => {
  const id = await addSandbox();
  api.commands.failNext = new AppError('temporarily_unavailable', 'The command could not be delivered now; try again');
  const reply = await batch('terminate', [id]);
  expect([reply.status, reply.body.code]).toEqual([503, 'temporarily_unavailable']);
});

test('up to 50 are handled at the same time', async () => {
  const ids = await Promise.all(Array.from({ length: 60 }, () => addSandbox()));
  let inProgress = 0;
  let most = 0;
  const full = Promise.withResolvers<void>();
  const pause = async () => {
    most = Math.max(most, ++inProgress);
    if (inProgress === 50) full.resolve();
    // The first ones wait for each other, and then long enough to detect one too many.
    await full.promise;
    await new Promise((resolve) => setTimeout(resolve, 20));
    inProgress--;
  };
  const commands: SandboxCommands = Object.create(api.commands, { pause: { value: pause } });
  const counting = await startApi({ on: { orm: api.orm, account: { ...api.root, apiKey: api.root.key }, commands } });
  const reply = await counting.send(member, 'POST', '/v1/sandboxes/batch-pause', { sandbox_ids: ids });
  expect([reply.body.data.successful, most]).toEqual([60, 50]);
  await counting.stop();
});

test.each(['delete', 'terminate', 'pause', 'resume'])('%s takes 1 to 100 ids and a key', async (action) => {
  for (const sandboxIds of [undefined, [], Array(101).fill('sbx-a'), 'sbx-a', [7]]) {
    const reply = await api.send(member, 'POST', `/v1/sandboxes/batch-${action}`, { sandbox_ids: sandboxIds });
    expect([reply.status, reply.body.code]).toEqual([400, 'validation_failed']);
    expect(reply.body.details[0].path).toMatch(/^sandbox_ids/);
  }
  const many = Array.from({ length: 100 }, (_, index) => `sbx-${index}`);
  expect((await batch(action, many)).body.data).toMatchObject({ total: 100, failed: 100 });
  expect((await batch(action, ['sbx-a'], {}, null)).status).toBe(401);
});

test('the account’s root may act on sandboxes of others, others not on the root’s', async () => {
  const [mine, roots] = [await addSandbox(), await addSandbox('running', api.root)];
  expect((await batch('terminate', [mine], {}, api.root)).body.data.successful).toBe(1);
  expect((await batch('terminate', [roots])).body.data.results[0].code).toBe('not_found');
});

test('mounts are for the resume of one sandbox', async () => {
  for (const [name, value] of [
    ['object_storage', { remove_all: true }],
    ['best_effort_oss', true],
  ] as const) {
    const reply = await batch('resume', ['sbx-a'], { [name]: value });
    expect([reply.status, reply.body.details]).toEqual([
      400,
      [{ path: name, reason: 'is only for the resume of a single sandbox' }],
    ]);
  }
  const nothing = { object_storage: {}, best_effort_oss: false };
  expect((await batch('resume', ['sbx-a'], nothing)).status).toBe(202);
  expect((await batch('resume', ['sbx-a'], { object_storage: null })).status).toBe(202);
});
