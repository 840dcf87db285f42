import { afterAll, afterEach, beforeAll, expect, test } from '@jest/globals';
import { Host } from '../../../db/hosts/host.entity.ts';
import { Sandbox } from '../../../db/sandboxes/sandbox.entity.ts';
import type { SandboxId } from '../../../domain/ids.ts';
import type { Json } from '../contract-client.ts';
import { addHost, startApi, type TestApi } from '../test-api.ts';

/** Four regions: `local`, this API's own, is nearest to `near`, and `full` has no free resources. */
let api: TestApi;
const hosts: Record<string, string> = {};

beforeAll(async () => {
  api = await startApi({
    planName: 'pro',
    env: {
      PLATFORM_REGION_HEADER: 'X-Edge-Region',
      PLATFORM_REGION_NETWORKS: 'near=192.0.2.0/24,2001:db8::/32;far=198.51.100.0/24',
      PLATFORM_REGIONS_NEAREST: 'full=far,near;far=near,local',
    },
  });
  for (const [region, cpus] of [
    ['near', 8],
    ['far', 8],
    ['full', 0],
  ] as const) {
    hosts[region] = await addHost(api.orm, region, cpus);
  }
});
afterAll(() => api.stop());
afterEach(async () => {
  const { body } = await api.send(api.root, 'GET', '/v1/sandboxes?limit=100');
  for (const each of body.data.sandboxes) await api.send(api.root, 'DELETE', `/v1/sandboxes/${each.sandbox_id}`);
});

const create = (locality: Json, more: Json = {}, size = {}) =>
  api.send(api.root, 'POST', '/v1/sandboxes', { cpu_count: 1, memory_mb: 128, storage_gb: 1, locality, ...size }, more);
async function findRegion(locality: Json, more: Json = {}): Promise<string> {
  const made = await create(locality, more);
  expect(made.status).toBe(201);
  const { body } = await api.send(api.root, 'GET', `/v1/sandboxes/${made.body.data.sandbox_id}`);
  return body.data.region;
}
const from = (remoteAddress: string) => ({ remoteAddress });
const withLease = (region: string, leaseExpiresAt: Date) =>
  api.orm.em.fork().nativeUpdate(Host, { hostId: hosts[region]! }, { leaseExpiresAt });

test('the public list has the regions of live hosts with capacity, by id and name', async () => {
  const { status, body } = await api.send(null, 'GET', '/v1/platform-regions');
  expect(status).toBe(200);
  const all = ['far', 'local', 'near'].map((region) => ({ id: region, name: region }));
  expect(body.data.platform_regions).toEqual(all);
  await withLease('far', new Date(Date.now() - 1000));
  try {
    const without = await api.send(api.root, 'GET', '/v1/platform-regions');
    expect(without.body.data.platform_regions.map((each: Json) => each.id)).toEqual(['local', 'near']);
  } finally {
    await withLease('far', new Date(Date.now() + 3_600_000));
  }
});

test('a named region is used regardless of the load of its hosts', async () => {
  for (const region of ['near', 'far', 'local']) expect(await findRegion({ region })).toBe(region);
});

test.each([null, {}, { auto_detect: false }, { force: true }, { auto_detect: true }])(
  "without a region, and if the caller's is unknown, the API's own is used: %j",
  async (locality) => {
    if (JSON.stringify(locality) === '{"auto_detect":true}')
      expect(await findRegion(locality, from('203.0.113.9'))).toBe('local');
    else expect(await findRegion(locality)).toBe('local');
  },
);

test.each([
  ['192.0.2.7', 'near'],
  ['::ffff:192.0.2.7', 'near'],
  ['2001:db8::7', 'near'],
  ['198.51.100.7', 'far'],
])('auto_detect knows the region of a caller at %s', async (address, region) => {
  expect(await findRegion({ auto_detect: true }, from(address))).toBe(region);
  expect(await findRegion({ auto_detect: true, region: '', force: true }, from(address))).toBe(region);
});

test('auto_detect prefers the operator’s header to the address, and a named region to both', async () => {
  const more = { ...from('192.0.2.7'), headers: { 'x-edge-region': 'far' } };
  expect(await findRegion({ auto_detect: true }, more)).toBe('far');
  expect(await findRegion({ auto_detect: true, region: 'local' }, more)).toBe('local');
  expect(await findRegion({ auto_detect: true }, { headers: { 'x-edge-region': 'atlantis' } })).toBe('local');
});

test('if it is not forced, the nearest region with free resources is used, in the operator’s order', async () => {
  expect(await findRegion({ region: 'full' })).toBe('far');
  // As large as the free rest of the host.
  await create({ region: 'far' }, {}, { cpu_count: 7 });
  expect(await findRegion({ region: 'full' })).toBe('near');
  await create({ region: 'near' }, {}, { cpu_count: 7 });
  expect(await findRegion({ region: 'full' })).toBe('local');
});

test('an unknown region is 400, forced or not', async () => {
  for (const force of [true, false]) {
    const { status, body } = await create({ region: 'atlantis', force });
    expect([status, body.code]).toEqual([400, 'invalid_region']);
    expect(body.details).toEqual([expect.objectContaining({ path: 'locality.region' })]);
  }
});

test('force with auto_detect is ignored, so a caller with an unknown region is served, too', async () => {
  expect(await findRegion({ auto_detect: true, force: true }, from('203.0.113.9'))).toBe('local');
  expect(await findRegion({ auto_detect: true, region: 'full', force: true })).toBe('far');
});

test('a forced region is not replaced: 409 when it has no free resources', async () => {
  const { status, body } = await create({ region: 'full', force: true });
  expect([status, body.code]).toEqual([409, 'locality_constraint_failed']);
  const list = await api.send(api.root, 'GET', '/v1/sandboxes');
  expect(list.body.data.sandboxes).toEqual([]);
});

/** Repeatedly creates one that its first host does not accept. @returns the regions where it is placed */
async function findPlaces(locality: Json, times: number): Promise<string[]> {
  const made = await create(locality, {}, { is_async: true });
  const sandboxId = made.body.data.sandbox_id as SandboxId;
  const row = () => api.orm.em.fork().findOneOrFail(Sandbox, { sandboxId });
  const regions = [(await row()).region];
  for (let again = 0; again < times; again++) {
    const refusal = await api.commands.life.placeAgain(sandboxId).then(
      () => null,
      (error) => error.code,
    );
    regions.push(refusal ?? (await row()).region);
  }
  return regions;
}

test('a sandbox that its host did not accept is placed again in the same order of regions', async () => {
  // The fullest of all, so it would be chosen first without the order.
  hosts.tight = await addHost(api.orm, 'tight', 1);
  try {
    expect(await findPlaces({ region: 'full' }, 1)).toEqual(['far', 'near']);
    expect(await findPlaces({ region: 'far' }, 2)).toEqual(['far', 'near', 'far']);
    expect(await findPlaces({ region: 'near' }, 1)).toEqual(['near', 'tight']);
  } finally {
    await withLease('tight', new Date(Date.now() - 1000));
  }
});

test('a sandbox with a forced region that its host did not accept is not placed in another region', async () => {
  expect(await findPlaces({ region: 'far', force: true }, 1)).toEqual(['far', 'locality_constraint_failed']);
});
