import { afterAll, beforeAll, expect, jest, test } from '@jest/globals';
import { DriverError } from '../../../runtime/driver.ts';
import { type ControlPlane, startControlPlane } from '../../support/control-plane.ts';
import { MemoryDriver } from '../../support/memory-driver.ts';
import { until } from '../../support/until.ts';
import type { Json } from '../contract-client.ts';
import { startApi, type TestApi } from '../test-api.ts';

// 100 sandboxes through Temporal, on busy machines.
jest.setTimeout(300_000);

let plane: ControlPlane;
let api: TestApi;
const driver = new MemoryDriver();
beforeAll(async () => {
  // An account's share of a host is not tested here.
  const hostWorker = { slots: 200, accountShare: 100 };
  plane = await startControlPlane({ driver, planName: 'enterprise', hostWorker });
  api = await startApi({ on: plane });
});
afterAll(async () => {
  await api?.stop();
  await plane?.stop();
});

const batch = async (action: string, sandbox_ids: string[], more: Json = {}): Promise<Json> =>
  (await api.send(api.root, 'POST', `/v1/sandboxes/batch-${action}`, { sandbox_ids, ...more })).body.data;
const small = { cpu_count: 1, memory_mb: 128, storage_gb: 1, timeout: 3600 };
/** All 100 succeed. */
async function batchAll(action: string, ids: string[]): Promise<void> {
  const { results, ...counts } = await batch(action, ids);
  expect(results.filter(({ code }: Json) => code !== undefined)).toEqual([]);
  expect(counts).toMatchObject({ total: 100, successful: 100, failed: 0 });
}
const listed = async (status: string): Promise<number> =>
  (await api.send(api.root, 'GET', `/v1/sandboxes?limit=1&status=${status}`)).body.data.pagination.total;

test('100 sandboxes are paused, resumed and terminated in one call each, and deleted in another', async () => {
  const create = () => api.send(api.root, 'POST', '/v1/sandboxes', small);
  const ids: string[] = [];
  for (let i = 0; i < 10; i++) {
    const made = await Promise.all(Array.from({ length: 10 }, create));
    ids.push(...made.map(({ body }) => body.data.sandbox_id));
  }
  expect(await listed('running')).toBe(100);

  await batchAll('pause', ids);
  await until(async () => (await listed('paused')) === 100, 90_000);
  const refused = await batch('pause', ids.slice(0, 2));
  expect(refused.results.map(({ code }: Json) => code)).toEqual(['sandbox_not_running', 'sandbox_not_running']);

  await batchAll('resume', ids);
  await until(async () => (await listed('running')) === 100, 90_000);

  await batchAll('terminate', ids);
  await until(async () => (await listed('terminated')) === 100, 90_000);
  expect(driver.states.size).toBe(0);
  const again = await batch('terminate', ids);
  expect(new Set(again.results.map(({ status }: Json) => status))).toEqual(new Set(['terminated']));

  await batchAll('delete', ids);
  await until(async () => (await listed('terminated')) === 0, 90_000);
});

test('a batch ends failed, starting and running sandboxes', async () => {
  const create = (more: Json = {}) => api.send(api.root, 'POST', '/v1/sandboxes', { ...small, ...more });
  const running = (await create()).body.data.sandbox_id;
  driver.failNext.set('create', new DriverError('image_pull_failed', 'no such image'));
  const failed = (await create()).body.data.sandbox_id;
  driver.hold = new Promise(() => {});
  const starting = (await create({ is_async: true })).body.data.sandbox_id;
  const result = await batch('terminate', [running, failed, starting], { force: true });
  expect(result).toMatchObject({ total: 3, successful: 3, failed: 0 });
  await until(async () => (await listed('terminated')) === 3, 90_000);
  driver.hold = null;
  expect(await batch('delete', [running, failed, starting])).toMatchObject({ successful: 3 });
  await until(async () => (await listed('terminated')) === 0, 90_000);
});

test('a sandbox that is not admitted does not prevent the others from resuming', async () => {
  const made = await Promise.all([1, 2].map(() => api.send(api.root, 'POST', '/v1/sandboxes', small)));
  const ids = made.map(({ body }) => body.data.sandbox_id);
  await api.send(api.root, 'POST', `/v1/sandboxes/${ids[0]}/pause`, {});
  expect((await batch('resume', ids)).results).toEqual([
    { sandbox_id: ids[0], status: 'resuming' },
    { sandbox_id: ids[1], status: 'failed', error: 'The sandbox is running, not paused', code: 'sandbox_not_paused' },
  ]);
  await until(async () => (await listed('running')) === 2);
  expect(await batch('delete', ids, { force: true })).toMatchObject({ successful: 2 });
  await until(async () => (await api.send(api.root, 'GET', '/v1/sandboxes')).body.data.pagination.total === 0, 90_000);
});
