import { existsSync, readdirSync, readFileSync, readlinkSync } from 'node:fs';
import path from 'node:path';
import type { SandboxSpec } from '../../runtime/driver.ts';
import { findHierarchies } from '../../runtime/machine/hierarchies.mjs';
import { Canary, HostileStorage } from '../support/hostile-storage.ts';
import { readIfThere } from '../support/read-if-there.ts';
import { S3Server } from '../support/s3-server.ts';
import { until } from '../support/until.ts';
import { LocalHost, nothing, onHost, shell } from './local-host.ts';
import { MountedSandboxes } from './mounted-sandboxes.ts';

/** The host's s3fs, checked from outside while it serves buckets of servers that tenants name. */
let host: LocalHost;
let s3: S3Server;
let hostile: HostileStorage;
let canary: Canary;

beforeAll(async () => {
  s3 = await S3Server.start('data', 'more');
  canary = await Canary.start();
  hostile = await HostileStorage.start(`http://127.0.0.1:${canary.port}/stolen`);
  host = await LocalHost.open(options(60));
}, 300_000);

afterAll(async () => {
  await hostile?.stop();
  await canary?.stop();
  await s3?.stop();
  await host.driver.reconcile([]);
  expect(await host.inventory()).toMatchObject(nothing);
  await host.close();
}, 300_000);

const options = (mountTimeoutSeconds: number) => ({ outboundRanges: ['127.0.0.0/8'], mountTimeoutSeconds });
const wanted: Partial<SandboxSpec> = { memoryMb: 1024 };
const mounted = new MountedSandboxes(() => ({ host, s3, wanted }));
const { slot, anew, withSandbox, createSpec } = mounted;
const memoryLimitBytes = 256 * 1024 * 1024;
const { version } = findHierarchies();

/** The processes of s3fs itself, of all sandboxes. */
async function s3fsPids(): Promise<number[]> {
  const { bucketProcesses } = await host.inventory();
  return bucketProcesses.filter((pid) => readIfThere(`/proc/${pid}/comm`).startsWith('s3fs'));
}

/** A field of `/proc/<pid>/status`. */
const readStatus = (pid: number, name: string) =>
  new RegExp(`^${name}:\\s+(.*)$`, 'm').exec(readFileSync(`/proc/${pid}/status`, 'latin1'))?.[1];

/** The control group of a process in the hierarchy of a controller, or in the only one. */
function readGroup(pid: number, controller: string): string {
  const lines = readFileSync(`/proc/${pid}/cgroup`, 'latin1').trim().split('\n');
  const line = lines.find((each) => each.split(':')[1]!.split(',').includes(controller)) ?? lines[0]!;
  return line.split(':').slice(2).join(':');
}

const readPeak = (file: string) => Number(readFileSync(file, 'latin1'));
/** A file of a process's group, by its name in each version of control groups. */
const groupFile = (pid: number, controller: string, names: { 1: string; 2: string }) =>
  path.join('/sys/fs/cgroup', version === 1 ? controller : '', readGroup(pid, controller), names[version]);

test('s3fs has no rights on the host, and namespaces and limits of its own below the sandbox', async () => {
  await withSandbox(anew(slot()), async (place, spec) => {
    const pids = await s3fsPids();
    expect(pids).toHaveLength(1);
    const pid = pids[0]!;
    for (const set of ['CapEff', 'CapPrm', 'CapInh', 'CapBnd', 'CapAmb']) {
      expect([set, readStatus(pid, set)]).toEqual([set, '0000000000000000']);
    }
    expect([readStatus(pid, 'Seccomp'), readStatus(pid, 'NoNewPrivs')]).toEqual(['2', '1']);
    expect(Number(readStatus(pid, 'Uid')!.split('\t')[0])).toBeGreaterThan(65_536);
    for (const kind of ['user', 'pid', 'mnt', 'net', 'ipc', 'uts', 'cgroup']) {
      const ofHost = readlinkSync(`/proc/self/ns/${kind}`);
      expect([kind, readlinkSync(`/proc/${pid}/ns/${kind}`) === ofHost]).toEqual([kind, false]);
    }
    expect(readGroup(pid, 'memory')).toMatch(new RegExp(`/${spec.sandboxId}/`));
    expect(readGroup(pid, 'cpu')).toMatch(new RegExp(`/${spec.sandboxId}/`));
    expect(
      Number(readFileSync(groupFile(pid, 'memory', { 1: 'memory.limit_in_bytes', 2: 'memory.max' }), 'latin1')),
    ).toBe(memoryLimitBytes);
    expect(readdirSync(`/proc/${pid}/root`).sort()).not.toContain('home');
    expect((await shell(place, spec, 'echo x > /mnt/data/x; cat /mnt/data/x')).output).toBe('x');
  });
}, 300_000);

test('s3fs reaches its endpoint alone', async () => {
  await withSandbox(anew(slot()), async () => {
    const [pid] = await s3fsPids();
    const reaches = (address: string, port: number, waitMs = 3000) => {
      const script = `const s = require('net').connect(${port}, '${address}'); s.on('connect', () => { console.log('yes'); process.exit() }).on('error', () => { console.log('no'); process.exit() }); setTimeout(() => { console.log('no'); process.exit() }, ${waitMs})`;
      return onHost('nsenter', `--net=/proc/${pid}/ns/net`, process.execPath, '-e', script);
    };
    expect(onHost('nsenter', `--net=/proc/${pid}/ns/net`, 'ip', '-o', 'link').split('\n')).toHaveLength(1);
    expect(reaches('127.0.0.1', s3.port, 40_000)).toBe('yes');
    expect(reaches('127.0.0.1', canary.port)).toBe('no');
    expect(reaches(host.driver.gateway!, canary.port)).toBe('no');
    expect(reaches(host.driver.hostAddress, 22)).toBe('no');
    expect(reaches('169.254.169.254', 80)).toBe('no');
    expect(canary.connections).toBe(0);
  });
}, 300_000);

test('an endless listing and a compressed one of 256 MiB use at most the memory limit, and only the endless one ends its mount', async () => {
  const bad = slot({ slot: 1, mountPoint: '/mnt/bad', uri: 's3://late-endless/', endpoint: hostile.endpoint });
  const bomb = slot({ slot: 2, mountPoint: '/mnt/bomb', uri: 's3://late-gzip/', endpoint: hostile.endpoint });
  await withSandbox(anew(slot(), bad, bomb), async (place, spec) => {
    const neighbour = createSpec(anew(slot({ uri: 's3://more/' })));
    const other = await host.driver.create(neighbour);
    const groups = (await s3fsPids()).map((pid) =>
      groupFile(pid, 'memory', { 1: 'memory.max_usage_in_bytes', 2: 'memory.peak' }),
    );
    expect(groups).toHaveLength(4);
    // It includes its children, and still exists when the group of the killed one is removed.
    const sandbox = groups.find((file) => file.includes(spec.sandboxId))!.replace(/[^/]+\/(?=[^/]+$)/, '');
    const listed = await shell(
      place,
      spec,
      'ls /mnt/bomb; ls /mnt/bad; ls /mnt/bad; echo; echo y > /mnt/data/y; cat /mnt/data/y',
      60,
    );
    expect(listed.output).toMatch(/not connected[\s\S]*\ny$/);
    expect(await s3fsPids()).toHaveLength(3);
    const left = groups.filter((file) => existsSync(file));
    expect(left).toHaveLength(3);
    for (const file of left) expect(readPeak(file)).toBeLessThanOrEqual(memoryLimitBytes);
    expect(readPeak(sandbox)).toBeGreaterThan(0.9 * memoryLimitBytes);
    expect(readPeak(sandbox)).toBeLessThan(2 * memoryLimitBytes);
    expect((await host.driver.inspect(spec.sandboxId)).state).toBe('running');
    expect((await shell(other, neighbour, 'echo z > /mnt/data/z; cat /mnt/data/z')).output).toBe('z');
    await host.driver.remove(neighbour.sandboxId);
  });
}, 300_000);

test('s3fs is frozen in a paused sandbox, and ends with its parent at every kind of end', async () => {
  await withSandbox(anew(slot()), async (place, spec) => {
    const [pid] = await s3fsPids();
    await host.driver.pause(spec.sandboxId);
    const state = readFileSync(groupFile(pid!, 'freezer', { 1: 'freezer.state', 2: 'cgroup.events' }), 'latin1');
    expect(state).toMatch(/^FROZEN$|^frozen 1$/m);
    await host.driver.resume({ ...spec, storage: mounted.kept(slot()) });
    expect((await shell(place, spec, 'echo k > /mnt/data/k; cat /mnt/data/k')).output).toBe('k');
    process.kill(Number(readStatus(pid!, 'PPid')), 'SIGKILL');
    const { output } = await shell(place, spec, 'until ! ls /mnt/data 2>/dev/null; do sleep 0.1; done; echo gone');
    expect(output).toBe('gone');
    await until(async () => (await s3fsPids()).length === 0);
  });
}, 300_000);

test('sixteen buckets fit into a small sandbox', async () => {
  const slots = Array.from({ length: 16 }, (_, index) => slot({ slot: index, mountPoint: `/mnt/b${index}` }));
  const spec = { ...createSpec(anew(...slots)), memoryMb: 256 };
  const place = await host.driver.create(spec);
  const { output } = await shell(place, spec, 'for n in /mnt/b*; do echo $n > $n/n && cat $n/n; done | wc -l', 60);
  expect(output).toBe('16');
  await host.driver.remove(spec.sandboxId);
}, 300_000);

test.each([['endless', 'headers', 'slow', 'redirect']])(
  'servers that attack by %s, %s, %s and %s fail their mounts in time, and reach no other address',
  async (...buckets) => {
    await host.driver.close();
    await host.start(options(8));
    const specs = buckets.map((bucket) =>
      createSpec(anew(slot({ uri: `s3://${bucket}/`, endpoint: hostile.endpoint }))),
    );
    const outcomes = await Promise.allSettled(specs.map((spec) => host.driver.create(spec)));
    const failed = { code: 'object_storage_mount_failed', message: expect.stringMatching(/no usable answer/) };
    expect(outcomes).toEqual(buckets.map(() => ({ status: 'rejected', reason: expect.objectContaining(failed) })));
    expect((await host.inventory()).bucketProcesses).toEqual([]);
    expect(canary.connections).toBe(0);
    for (const spec of specs) await host.driver.remove(spec.sandboxId);
  },
  300_000,
);
