import { expect, test } from '@jest/globals';
import { RouteCache } from '../../gateway/route-cache.ts';
import { until } from '../support/until.ts';
import { MemoryRoutes } from './memory-routes.ts';

function createCache(options: { maxEntries?: number; shortTtlMs?: number; lookupTimeoutMs?: number } = {}) {
  const routes = new MemoryRoutes();
  return { routes, cache: new RouteCache(routes, routes, { shortTtlMs: 60, ...options }) };
}

test('a route is looked up once and kept until a change arrives', async () => {
  const { routes, cache } = createCache();
  routes.set({ sandboxId: 'sbx-a', address: '10.0.0.1' });
  for (let i = 0; i < 5; i++) expect((await cache.find('sbx-a'))?.address).toBe('10.0.0.1');
  const startedAt = performance.now();
  await until(() => performance.now() - startedAt > 100);
  await cache.find('sbx-a');
  expect(routes.lookups).toEqual(['sbx-a']);
});

test('simultaneous misses share one lookup', async () => {
  const { routes, cache } = createCache();
  routes.set({ sandboxId: 'sbx-a' });
  const found = await Promise.all(Array.from({ length: 100 }, () => cache.find('sbx-a')));
  expect(new Set(found).size).toBe(1);
  expect(routes.lookups).toEqual(['sbx-a']);
});

test('the next lookup sees an arrived change', async () => {
  const { routes, cache } = createCache();
  routes.set({ sandboxId: 'sbx-a', address: '10.0.0.1' });
  routes.set({ sandboxId: 'sbx-b' });
  await Promise.all([cache.find('sbx-a'), cache.find('sbx-b')]);
  routes.set({ sandboxId: 'sbx-a', address: '10.0.0.2' });
  expect((await cache.find('sbx-a'))?.address).toBe('10.0.0.2');
  await cache.find('sbx-b');
  expect(routes.lookups).toEqual(['sbx-a', 'sbx-b', 'sbx-a']);
});

test('a lookup that a change outdated is neither kept nor returned to callers after the change', async () => {
  const { routes, cache } = createCache();
  const [first, second] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  routes.gate = first.promise;
  routes.set({ sandboxId: 'sbx-a', address: '10.0.0.1' });
  const early = cache.find('sbx-a');
  routes.gate = second.promise;
  routes.set({ sandboxId: 'sbx-a', address: '10.0.0.2' });
  const late = cache.find('sbx-a');
  first.resolve();
  expect((await early)?.address).toBe('10.0.0.1');
  const later = cache.find('sbx-a');
  second.resolve();
  expect((await late)?.address).toBe('10.0.0.2');
  expect((await later)?.address).toBe('10.0.0.2');
  expect(routes.lookups).toHaveLength(2);
});

test('an outdated lookup leaves nothing behind', async () => {
  const { routes, cache } = createCache();
  const gate = Promise.withResolvers<void>();
  routes.gate = gate.promise;
  routes.set({ sandboxId: 'sbx-a', address: '10.0.0.1' });
  const early = cache.find('sbx-a');
  routes.set({ sandboxId: 'sbx-a', address: '10.0.0.2' });
  gate.resolve();
  await early;
  expect(cache.size).toBe(0);
  expect((await cache.find('sbx-a'))?.address).toBe('10.0.0.2');
});

test('an unknown id is remembered only briefly, and known as soon as its change arrives', async () => {
  // Longer than a busy machine can delay this process between two lookups.
  const { routes, cache } = createCache({ shortTtlMs: 5000 });
  expect(await cache.find('sbx-a')).toBeNull();
  expect(await cache.find('sbx-a')).toBeNull();
  expect(routes.lookups).toHaveLength(1);
  routes.set({ sandboxId: 'sbx-a' });
  expect(await cache.find('sbx-a')).not.toBeNull();
  expect(await cache.find('sbx-b')).toBeNull();
  routes.setSilently({ sandboxId: 'sbx-b' });
  await until(async () => (await cache.find('sbx-b')) !== null);
});

test('a failed lookup is not kept', async () => {
  const { routes, cache } = createCache();
  routes.set({ sandboxId: 'sbx-a' });
  routes.gate = Promise.reject(new Error('down'));
  await expect(cache.find('sbx-a')).rejects.toThrow('down');
  routes.gate = Promise.resolve();
  expect(await cache.find('sbx-a')).not.toBeNull();
});

test('a lookup that never ends fails after its time limit, and does not block the next', async () => {
  const { routes, cache } = createCache({ lookupTimeoutMs: 50 });
  routes.set({ sandboxId: 'sbx-a' });
  routes.gate = new Promise(() => undefined);
  await expect(cache.find('sbx-a')).rejects.toThrow('no answer');
  routes.gate = Promise.resolve();
  expect(await cache.find('sbx-a')).not.toBeNull();
});

test('without announcements of changes all routes are dropped, and new ones are kept only briefly', async () => {
  const { routes, cache } = createCache({ shortTtlMs: 60 });
  const changed: (string | null)[] = [];
  cache.onChange((sandboxId) => changed.push(sandboxId));
  routes.setSilently({ sandboxId: 'sbx-a', address: '10.0.0.1' });
  await cache.find('sbx-a');
  routes.setLive(false);
  expect(cache.size).toBe(0);
  await cache.find('sbx-a');
  routes.setSilently({ sandboxId: 'sbx-a', address: '10.0.0.2' });
  await until(async () => (await cache.find('sbx-a'))?.address === '10.0.0.2');
  routes.setLive(true);
  expect(cache.size).toBe(0);
  expect(changed).toEqual([null, null]);
});

test('it keeps its limit, and guessed ids do not displace used routes', async () => {
  const { routes, cache } = createCache({ maxEntries: 50, shortTtlMs: 60_000 });
  for (let i = 0; i < 60; i++) {
    routes.set({ sandboxId: `sbx-${i}` });
    await cache.find(`sbx-${i}`);
    await cache.find('sbx-0');
  }
  for (let i = 0; i < 500; i++) await cache.find(`sbx-guess${i}`);
  expect(cache.size).toBe(100);
  routes.lookups.length = 0;
  await cache.find('sbx-0');
  await cache.find('sbx-59');
  expect(routes.lookups).toEqual([]);
});

test('a doubted route is looked up again, but not right after a lookup', async () => {
  // Longer than a busy machine can delay this process.
  const { routes, cache } = createCache({ shortTtlMs: 5000 });
  routes.set({ sandboxId: 'sbx-a' });
  await cache.find('sbx-a');
  expect(cache.dropUnlessNew('sbx-a')).toBe(false);
  await until(() => cache.dropUnlessNew('sbx-a'));
  await cache.find('sbx-a');
  expect(routes.lookups).toHaveLength(2);
});
