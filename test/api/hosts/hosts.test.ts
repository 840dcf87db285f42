import { Host } from '../../../db/hosts/host.entity.ts';
import type { Json } from '../contract-client.ts';
import { addHost, type Caller, startApi, type TestApi } from '../test-api.ts';

const hosts = '/v1/admin/hosts';
let api: TestApi;
/** The only host with room at first. */
let first: string;
beforeAll(async () => {
  api = await startApi({ planName: 'enterprise' });
  first = (await list())[0]!.host_id;
});
afterAll(() => api.stop());

const list = async (): Promise<Json[]> => (await api.send(api.root, 'GET', hosts)).body.data.hosts;
const find = async (hostId: string) => (await list()).find((each) => each.host_id === hostId);
const drain = (hostId: string, by: Caller | null = api.root) => api.send(by, 'POST', `${hosts}/${hostId}/drain`);
const undrain = (hostId: string) => api.send(api.root, 'DELETE', `${hosts}/${hostId}/drain`);
const readCode = ({ status, body }: { status: number; body: Json }) => [status, body.code];

test('operators see capacity, room and sandboxes of each host', async () => {
  const made = [];
  for (let at = 0; at < 3; at += 1) made.push((await api.send(api.root, 'POST', '/v1/sandboxes')).body.data.sandbox_id);
  await api.send(api.root, 'POST', `/v1/sandboxes/${made[0]}/pause`);
  await api.send(api.root, 'POST', `/v1/sandboxes/${made[1]}/terminate`);
  expect(await find(first)).toEqual({
    ...{ host_id: first, region: 'local', state: 'ready', draining_since: null, lease_expires_at: expect.any(String) },
    capacity: { cpu: 1000, memory_mb: 1000 * 1024, disk_gb: 20_000 },
    ...{ memory_mb_total: null, free: null, measured_at: null, short_of: [], full_disk: null },
    sandboxes: { running: 1, paused: 1 },
  });
  const hostId = await addHost(api.orm, 'elsewhere', 8);
  const measured = { cpuFree: -0.5, memoryMbFree: 100, diskMbFree: 2000, memoryMbTotal: 8192, shortOf: ['cpu'] };
  const change = { ...measured, measuredAt: new Date(), fullDisk: 'cache', cpuCapacity: null };
  await api.orm.em.fork().nativeUpdate(Host, { hostId }, change);
  expect(await find(hostId)).toMatchObject({
    ...{ memory_mb_total: 8192, free: { cpu: -0.5, memory_mb: 100, disk_mb: 2000 }, short_of: ['cpu'] },
    ...{ full_disk: 'cache', capacity: { cpu: null }, measured_at: change.measuredAt.toISOString(), sandboxes: {} },
  });
  await api.orm.em.fork().nativeUpdate(Host, { hostId }, { leaseExpiresAt: new Date() });
  expect((await find(hostId)).state).toBe('away');
  await api.orm.em.fork().nativeUpdate(Host, { hostId }, { lostAt: new Date() });
  expect((await find(hostId)).state).toBe('lost');
});

test('a drained host takes no sandboxes until the drain ends; both are in the audit log', async () => {
  const { body } = await drain(first);
  expect(body.data).toMatchObject({ host_id: first, state: 'draining', draining_since: expect.any(String) });
  expect((await drain(first)).body.data.draining_since).toBe(body.data.draining_since);
  expect(readCode(await api.send(api.root, 'POST', '/v1/sandboxes'))).toEqual([503, 'no_capacity']);
  expect((await undrain(first)).body.data).toMatchObject({ state: 'ready', draining_since: null });
  expect((await undrain(first)).status).toBe(200);
  expect((await api.send(api.root, 'POST', '/v1/sandboxes')).status).toBe(201);
  const audit = await api.send(api.root, 'GET', `/v1/audit-events?account_id=all&object_id=${first}`);
  const changes = audit.body.data.events.map((each: Json) => [each.action, each.account_id, each.before, each.after]);
  expect(changes).toEqual([
    ['undrainHost', null, {}, {}],
    ['undrainHost', null, { draining: true }, { draining: false }],
    ['drainHost', null, {}, {}],
    ['drainHost', null, { draining: false }, { draining: true }],
  ]);
});

test('only operators may do this, with a known host', async () => {
  const owner = await api.addAccount();
  expect(readCode(await drain(first, owner))).toEqual([403, 'admin_required']);
  expect(readCode(await drain(first, null))).toEqual([401, 'unauthenticated']);
  expect(readCode(await api.send(owner, 'GET', hosts))).toEqual([403, 'admin_required']);
  expect(readCode(await drain('host-none'))).toEqual([404, 'not_found']);
  expect(readCode(await undrain('host-none'))).toEqual([404, 'not_found']);
  expect((await find(first)).state).toBe('ready');
});
