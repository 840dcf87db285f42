import { readFileSync } from 'node:fs';
import path from 'node:path';
import type { DiskRates } from '../../domain/billing/plans.ts';
import type { SandboxId } from '../../domain/ids.ts';
import type { SandboxSpec } from '../../runtime/driver.ts';
import { Cgroups } from '../../runtime/oci/cgroups.ts';
import { limitableDevice, limitedDevices, noRates, rateTexts } from '../../runtime/oci/disk-rates.ts';
import { liveShims } from '../../runtime/oci/live-shims.ts';
import { reportMissingControls } from '../../runtime/oci/prerequisites.ts';
import { until } from '../support/until.ts';
import { LocalHost, shell } from './local-host.ts';

/** The rates at which a sandbox may use its disk. The kernel limits them by the control group of the sandbox. */
const slow: DiskRates = { readMbPerSecond: 8, writeMbPerSecond: 4, readsPerSecond: 2000, writesPerSecond: 50 };
const fast: DiskRates = { readMbPerSecond: 800, writeMbPerSecond: 400, readsPerSecond: 20_000, writesPerSecond: 9000 };
/** The share of the promised time that the kernel may be early. */
const early = 0.7;

/** The device of a sandbox's disk, and the limits of its control group by device. */
function readLimits(host: LocalHost, sandboxId: SandboxId): { device: string; limits: Record<string, string[]> } {
  const shim = liveShims({ interface: `sb${host.copy.id}` }).find(({ folder }) => folder.endsWith(`/${sandboxId}`))!;
  const cgroups = new Cgroups(`sandboxes-${host.copy.id}`);
  const limits: Record<string, string[]> = {};
  for (const file of cgroups.rates.listFiles(shim.instance)) {
    for (const each of limitedDevices(readFileSync(file, 'latin1')))
      limits[each.device] = [...(limits[each.device] ?? []), each.limits];
  }
  return { device: limitableDevice(`/proc/${shim.process.pid}/root/mnt/disk`)!, limits };
}

const version = new Cgroups('sandboxes').version;

function expectLimits(host: LocalHost, spec: SandboxSpec): void {
  const { device, limits } = readLimits(host, spec.sandboxId);
  expect(limits).toEqual({ [device]: rateTexts(version, spec.diskRates!) });
}

describe('the kernel’s files', () => {
  test('have the form that each version of control groups reads and writes', () => {
    expect(rateTexts(1, slow)).toEqual(['8388608', '4194304', '2000', '50']);
    expect(rateTexts(2, slow)).toEqual(['rbps=8388608 wbps=4194304 riops=2000 wiops=50']);
    expect(limitedDevices('7:1 8388608\n7:300 5\n')).toEqual([
      { device: '7:1', limits: '8388608' },
      { device: '7:300', limits: '5' },
    ]);
    expect(limitedDevices('7:1 rbps=1 wbps=max riops=max wiops=max\n')).toEqual([
      { device: '7:1', limits: 'rbps=1 wbps=max riops=max wiops=max' },
    ]);
    expect(limitedDevices('')).toEqual([]);
  });
});

describe('a sandbox', () => {
  let host: LocalHost;
  beforeAll(async () => {
    host = await LocalHost.open();
  }, 300_000);
  afterAll(() => host.closeEmpty());

  const seconds = async (spec: SandboxSpec, script: string) => {
    const { place } = await host.driver.inspect(spec.sandboxId);
    const { exitCode, output } = await shell(
      place!,
      spec,
      `a=$(date +%s%N); { ${script}; } >/dev/null && echo $(( $(date +%s%N) - a ))`,
    );
    if (exitCode !== 0) throw new Error(output);
    return Number(output.split('\n').at(-1)) / 1e9;
  };
  const writeDirect = (size: string, count: number) =>
    `dd if=/dev/zero of=/root/file bs=${size} count=${count} oflag=direct 2>&1`;
  const readDirect = (size: string, count: number) =>
    `dd if=/root/file of=/dev/null bs=${size} count=${count} iflag=direct 2>&1`;

  test('reads and writes its disk at most at its rates, and another one at others', async () => {
    const [spec, other, free] = [host.spec({ diskRates: slow }), host.spec({ diskRates: fast }), host.spec()];
    for (const each of [spec, other, free]) await host.driver.create(each);
    expectLimits(host, spec);
    expectLimits(host, other);
    expect(readLimits(host, free.sandboxId).limits).toEqual({});
    expect(await seconds(spec, writeDirect('1M', 12))).toBeGreaterThan(early * (12 / slow.writeMbPerSecond));
    expect(await seconds(spec, readDirect('1M', 12))).toBeGreaterThan(early * (12 / slow.readMbPerSecond));
    expect(await seconds(spec, writeDirect('4k', 100))).toBeGreaterThan(early * (100 / slow.writesPerSecond));
    // What comes from the page cache of the image or of the sandbox itself is no use of the disk.
    await seconds(other, writeDirect('1M', 12));
  });

  test('keeps its limits after a pause, a restart on its disk and a restart of the host worker', async () => {
    const spec = host.spec({ diskRates: slow });
    await host.driver.create(spec);
    await host.driver.pause(spec.sandboxId);
    await host.driver.resume({ ...spec, run: 2 });
    expectLimits(host, spec);
    let run = 2;
    const others: SandboxSpec[] = [];
    const present = () => readLimits(host, spec.sandboxId).device;
    const last = () => readLimits(host, others.at(-1)!.sandboxId).device;
    // Another sandbox takes the number of the device. The kernel gives the lowest free number. Other tests on this
    // machine may just have returned lower ones, or may be first to take this one: then the sandbox gets another.
    for (;;) {
      const before = present();
      await host.driver.stop(spec.sandboxId);
      do {
        others.push(host.spec({ diskRates: fast }));
        await host.driver.create(others.at(-1)!);
      } while (last() !== before && others.length % 10 !== 0);
      run += 1;
      await host.driver.resume({ ...spec, run });
      expectLimits(host, spec);
      if (last() !== before) continue;
      expect(present()).not.toBe(before);
      break;
    }
    const other = others.at(-1)!;
    await host.driver.restart({ ...spec, run: run + 1 });
    expectLimits(host, spec);
    // As if the worker had died in the middle of a pause, which lifts the limits for a moment.
    const cgroups = new Cgroups(`sandboxes-${host.copy.id}`);
    await cgroups.rates.lift(spec.sandboxId);
    expect(readLimits(host, spec.sandboxId).limits).toEqual({});
    await host.driver.close();
    await host.start();
    expectLimits(host, spec);
    expectLimits(host, other);
  });

  test('can be paused and ended while it waits for its disk', async () => {
    // 96 MB at 1 MB/s: far longer than a freeze and an end may take.
    const spec = host.spec({ diskRates: { ...slow, writeMbPerSecond: 1 }, memoryMb: 512 });
    const place = await host.driver.create(spec);
    const program = `import mmap, os
buffer = mmap.mmap(-1, 96 << 20)
file = os.open("/root/large", os.O_WRONLY | os.O_CREAT | os.O_DIRECT)
print(os.write(file, buffer), flush=True)
`;
    await shell(
      place,
      spec,
      `cat >/tmp/write.py <<'END'\n${program}END\nsetsid python3 /tmp/write.py >/tmp/written 2>&1 </dev/null &`,
    );
    const isWaiting = async () => /^D/m.test((await shell(place, spec, 'ps -o stat= -C python3')).output);
    await until(isWaiting, 60_000);
    expect(await host.driver.pause(spec.sandboxId)).toEqual({ kept: 'memory' });
    expectLimits(host, spec);
    await host.driver.resume({ ...spec, run: 2 });
    await shell(place, spec, 'setsid python3 /tmp/write.py >/tmp/written 2>&1 </dev/null &');
    await until(isWaiting, 60_000);
    await host.driver.stop(spec.sandboxId);
    expect(await host.driver.inspect(spec.sandboxId)).toMatchObject({ state: 'exited' });
  });

  test('fills no memory of the host with direct reads of many threads', async () => {
    const spec = host.spec({ diskRates: { ...fast, readMbPerSecond: 1 }, memoryMb: 512 });
    const place = await host.driver.create(spec);
    const program = `import mmap, os, threading
buffer = mmap.mmap(-1, 256 << 20)
buffer.madvise(mmap.MADV_NOHUGEPAGE)
block = os.urandom(1 << 20)
for _ in range(256): buffer.write(block)
file = os.open("/root/large", os.O_RDWR | os.O_CREAT | os.O_DIRECT)
os.pwrite(file, buffer, 0)
for _ in range(16): threading.Thread(target=os.preadv, args=(file, [buffer], 0)).start()
open("/dev/shm/begun", "w").close()
`;
    const run = 'setsid python3 /tmp/read.py >/tmp/log 2>&1 </dev/null &';
    await shell(place, spec, `cat >/tmp/read.py <<'END'\n${program}END\n${run}`);
    // Not on the disk, on which the sandbox itself now waits for minutes.
    await until(async () => (await shell(place, spec, 'test -e /dev/shm/begun')).exitCode === 0, 120_000);
    // The waiting reads of 4 GB would be 4,096 vectors of 4 KB that no limit of the sandbox counts.
    const vectors = /^biovec-max +(\d+)/m.exec(readFileSync('/proc/slabinfo', 'latin1'))![1];
    expect(Number(vectors)).toBeLessThan(2000);
    await new Cgroups(`sandboxes-${host.copy.id}`).rates.lift(spec.sandboxId);
    await until(async () => (await shell(place, spec, 'pgrep python3')).exitCode !== 0, 120_000);
    await host.driver.stop(spec.sandboxId);
  });

  test('cannot change its limits', async () => {
    const spec = host.spec({ diskRates: slow });
    const place = await host.driver.create(spec);
    const { device } = readLimits(host, spec.sandboxId);
    const text = `${device} ${noRates[version]}`;
    const script = `for file in $(find / -xdev -name 'blkio.throttle.*' -o -xdev -name io.max 2>/dev/null) $(find /sys/fs/cgroup -name 'blkio.throttle.*_device' -o -name io.max)
do echo "$file"; (echo '${text}' >"$file") 2>/dev/null && echo changed; done
mount -o remount,rw /sys/fs/cgroup 2>/dev/null && echo changed
mkdir -p /root/group; mount -t cgroup -o blkio none /root/group 2>/dev/null && echo changed
mount -t cgroup2 none /root/group 2>/dev/null && echo changed
mkdir /sys/fs/cgroup/blkio/other /sys/fs/cgroup/other 2>/dev/null && echo changed; true`;
    const { output } = await shell(place, spec, script);
    expect(output).toMatch(/blkio\.throttle\.read_bps_device|io\.max/);
    expect(output).not.toContain('changed');
    expectLimits(host, spec);
  });
});

test('a sandbox from the pool has the limits of its plan, and a member has none', async () => {
  await using host = await LocalHost.open({ warmPoolSize: 2 });
  await until(() => host.driver.poolReady === 2, 120_000);
  for (const diskRates of [slow, fast]) {
    const spec = host.spec({ storageGb: 10, diskRates });
    expect((await host.driver.create(spec)).from).toBe('pool');
    expectLimits(host, spec);
  }
}, 300_000);

test('without such a controller the host says so, and sandboxes have no limits', async () => {
  const roots = new Cgroups('sandboxes').listFolders('').map((folder) => path.dirname(folder));
  const cgroups = new Cgroups('sandboxes', {
    version: 1,
    roots: roots.filter((root) => !root.endsWith('/blkio')),
    hybridRoot: null,
  });
  const warnings: string[] = [];
  const logger = { debug() {}, info() {}, error() {}, warn: (_: object, message: string) => warnings.push(message) };
  reportMissingControls(cgroups, logger);
  expect(warnings).toEqual([expect.stringContaining('no limits for the rates of disks')]);
  expect(cgroups.rates.listFiles('sbx-1')).toEqual([]);
  await cgroups.rates.set('sbx-1', '7:0', slow);
  await (await cgroups.rates.lift('sbx-1'))();
});
