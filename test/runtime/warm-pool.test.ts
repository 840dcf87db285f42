import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { findHierarchies } from '../../runtime/machine/hierarchies.mjs';
import { until } from '../support/until.ts';
import { LocalHost, nothing, shell } from './local-host.ts';

let host: LocalHost;
beforeEach(async () => {
  host = await LocalHost.open({ warmPoolSize: 2 });
}, 300_000);
afterEach(() => host.closeEmpty());

const filled = (members = 2) => until(() => host.driver.poolReady >= members, 120_000, 10);
const members = async () => (await host.inventory()).folders.pool;
/** The size with which the pool starts without any requests. */
const storageGb = 10;

test('a claim takes a frozen member and gives it the name, limits and network of the sandbox', async () => {
  await filled();
  const spec = host.spec({ storageGb, cpuCount: 1.5, memoryMb: 384, allowInternetAccess: true });
  const place = await host.driver.create(spec);
  expect(place.from).toBe('pool');
  const { output } = await shell(
    place,
    spec,
    `hostname; cat /etc/hostname; tail -1 /etc/hosts; echo $GREETING; df --output=size -BG / | tail -1
    cat /sys/fs/cgroup/memory/memory.limit_in_bytes 2>/dev/null || cat /sys/fs/cgroup/memory.max
    cat /sys/fs/cgroup/cpu/cpu.cfs_quota_us /sys/fs/cgroup/cpu/cpu.shares 2>/dev/null || cat /sys/fs/cgroup/cpu.max /sys/fs/cgroup/cpu.weight`,
  );
  const cpu = findHierarchies().version === 1 ? ['150000', '1536'] : ['150000 100000', '59'];
  expect(output.split('\n').map((line) => line.trim())).toEqual([
    spec.sandboxId,
    spec.sandboxId,
    `${place.address} ${spec.sandboxId}`,
    'hello',
    '10G',
    String(384 * 1024 * 1024),
    ...cpu,
  ]);
  const { interfaces } = await host.inventory();
  const groups = interfaces.map((name) => readFileSync(`/sys/class/net/${name}/netdev_group`, 'latin1').trim());
  expect(groups.filter((group) => group === '20471')).toHaveLength(1);
  await filled();
  expect((await host.driver.list()).map((sandbox) => sandbox.sandboxId)).toEqual([spec.sandboxId]);
});

test('members are frozen and have no secret', async () => {
  await filled();
  const { containers, processes } = await host.inventory();
  expect(containers).toHaveLength(2);
  expect(processes).toHaveLength(4);
  const ticks = () =>
    processes.map((pid) => readFileSync(`/proc/${pid}/stat`, 'latin1').split(' ').slice(13, 15).join());
  const before = ticks();
  await sleep(300);
  expect(ticks()).toEqual(before);
});

test('a sandbox from the pool pauses, ends and restarts like any other', async () => {
  await filled();
  const spec = host.spec({ storageGb });
  const place = await host.driver.create(spec);
  await shell(place, spec, 'echo kept >/root/note');
  await host.driver.pause(spec.sandboxId);
  expect(await host.driver.resume(spec)).toMatchObject({ from: 'thaw', address: place.address });
  await host.driver.stop(spec.sandboxId);
  const again = await host.driver.resume(spec);
  expect(again.from).toBe('cold');
  expect((await shell(again, spec, 'cat /root/note; hostname')).output).toBe(`kept\n${spec.sandboxId}`);
});

test('a miss is a cold start, and the pool learns the size', async () => {
  await filled();
  expect((await host.driver.create(host.spec({ storageGb: 3 }))).from).toBe('cold');
  await until(async () => {
    await filled();
    return (await host.driver.create(host.spec({ storageGb: 3 }))).from === 'pool';
  }, 180_000);
}, 300_000);

test('a member that died is not claimed', async () => {
  await filled();
  const { shims } = await host.inventory();
  for (const pid of shims) process.kill(pid, 'SIGTERM');
  await until(async () => {
    const left = (await host.inventory()).shims;
    return !shims.some((pid) => left.includes(pid));
  });
  // On a slow machine the pool may have made another member in the meantime.
  const spec = host.spec({ storageGb });
  const place = await host.driver.create(spec);
  expect((await shell(place, spec, 'hostname')).output).toBe(spec.sandboxId);
});

test('members end with the host worker, and the next one removes those of a killed one', async () => {
  await filled();
  await host.driver.close();
  expect(await host.inventory()).toMatchObject(nothing);
  await host.start({ warmPoolSize: 2 });
  await filled();
  const left = await members();
  // As after kill -9: the members are not ended, and another process starts.
  const killed = host.driver;
  await host.start();
  expect(await members()).toEqual([]);
  expect(await host.driver.reconcile([])).toMatchObject({ poolMembers: expect.arrayContaining(left) });
  await killed.close();
});
