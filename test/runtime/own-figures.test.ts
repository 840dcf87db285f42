import { closeSync, mkdtempSync, openSync, readFileSync, readSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import type { SandboxPlace, SandboxSpec } from '../../runtime/driver.ts';
import { overwrite } from '../../runtime/oci/overwrite.ts';
import { usedFileTexts } from '../../runtime/oci/own-files.ts';
import { until } from '../support/until.ts';
import { LocalHost, shell } from './local-host.ts';

/** The size and use that programs in a sandbox see, while the machine is larger and has other load. */
const parallelism = os.availableParallelism();

describe.each(['crun', 'runc'] as const)('with %s', (runtime) => {
  let host: LocalHost;
  let spec: SandboxSpec;
  let place: SandboxPlace;

  beforeAll(async () => {
    host = await LocalHost.open({ runtime });
    spec = host.spec({ cpuCount: 1, memoryMb: 384 });
    place = await host.driver.create(spec);
  }, 300_000);
  afterAll(() => host.closeEmpty());

  const run = async (script: string) => (await shell(place, spec, script, 60)).output.trim();
  const usedMb = async () => Number(await run("free -m | awk '/^Mem/{print $3}'"));

  test('the number of processors is that of the sandbox for every way to ask', async () => {
    expect(parallelism).toBeGreaterThan(1);
    const python = 'import os; print(os.cpu_count(), len(os.sched_getaffinity(0)), os.sysconf("SC_NPROCESSORS_ONLN"))';
    const node =
      'const os = require("os"); console.log(os.cpus().length, os.availableParallelism(), os.totalmem() / 2 ** 20)';
    const script = `nproc; grep -c ^processor /proc/cpuinfo; grep -c '^cpu[0-9]' /proc/stat; python3 -c '${python}'
/.platform/bin/node -e '${node}'; free -m | awk '/^Mem/{print $2}'; grep -c MHz /proc/cpuinfo`;
    expect((await run(script)).split('\n')).toEqual(['1', '1', '1', '1 1 1', '1 1 384', '384', '0']);
  });

  test('uptime counts from the start of the sandbox, and the ages of processes agree with it', async () => {
    const [uptime, age, startedAgo] = (
      await run(
        `cut -d' ' -f1 /proc/uptime; sleep 1.2; ps -o etimes= -p 1; python3 -c 'import time; print(time.time() - int([line.split()[1] for line in open("/proc/stat") if line.startswith("btime")][0]))'`,
      )
    )
      .split('\n')
      .map(Number);
    expect(uptime).toBeLessThan(300);
    expect(age! - uptime!).toBeLessThan(20);
    expect(age).toBeGreaterThanOrEqual(1);
    expect(Math.abs(startedAgo! - uptime!)).toBeLessThan(20);
    expect(os.uptime()).toBeGreaterThan(uptime!);
  });

  test('free and loadavg follow what the sandbox uses, also after a pause', async () => {
    const before = await usedMb();
    expect(before).toBeLessThan(150);
    await run(
      `cat >/tmp/use.py <<'END'\nheld = bytearray(b"x" * (120 << 20))\nwhile True: pass\nEND\nsetsid python3 /tmp/use.py >/dev/null 2>&1 </dev/null & echo $! >/tmp/pid`,
    );
    await until(async () => (await usedMb()) > before + 100, 90_000);
    await until(async () => Number(await run("cut -d' ' -f1 /proc/loadavg")) > 0.02, 90_000);
    await host.driver.pause(spec.sandboxId);
    place = await host.driver.resume({ ...spec, run: 2 });
    expect(await usedMb()).toBeGreaterThan(before + 100);
    const busy = async () => Number(await run("awk '/^cpu /{print $2 + $4}' /proc/stat"));
    const then = await busy();
    await until(async () => (await busy()) > then + 50, 90_000);
    await run('kill -9 $(cat /tmp/pid)');
    await until(async () => (await usedMb()) < before + 60, 90_000);
    expect(await run('nproc')).toBe('1');
  });

  test('readers do not wait for the host and never see a partial file', async () => {
    const look = `import time
end = time.time() + 3
while time.time() < end:
  text = open("/proc/meminfo").read()
  assert text.count("\\n") == 25 and text.startswith("MemTotal:") and text.endswith(" kB\\n"), text
  rows = open("/proc/stat").read().splitlines()
  assert rows[0].startswith("cpu ") and rows[-1].startswith("softirq "), rows
print("whole")`;
    expect(await run(`cat >/tmp/look.py <<'END'\n${look}\nEND\npython3 /tmp/look.py`)).toBe('whole');
  });

  test('nothing inside can change them', async () => {
    const tries = ['/proc/meminfo', '/proc/stat', '/proc/cpuinfo', '/proc/loadavg', '/sys/devices/system/cpu/online'];
    const script = tries.map((file) => `(echo x >${file}) 2>/dev/null && echo ${file}`).join('; ');
    expect(await run(`${script}; umount /proc/meminfo 2>/dev/null && echo umounted; echo done`)).toBe('done');
  });

  test('without a host worker they stay readable, and the next one updates them again', async () => {
    await host.driver.close();
    expect(await run('head -1 /proc/meminfo; nproc')).toMatch(/^MemTotal: +393216 kB\n1$/);
    await host.start({ runtime });
    await run('setsid sh -c "head -c 80m /dev/zero | tail | sleep 60" >/dev/null 2>&1 </dev/null &');
    const before = await usedMb();
    await until(async () => (await usedMb()) > Math.min(before, 60) + 40, 90_000);
    expect(await run('nproc')).toBe('1');
  });
});

test('a text that replaces a longer one never leaves a rest of it: the file keeps its length', () => {
  const file = path.join(mkdtempSync(path.join(os.tmpdir(), 'own-figures-')), 'stat');
  try {
    writeFileSync(file, 'cpu 1000 0\nsoftirq 10 10\n');
    overwrite(file, 'cpu 9 0\nsoftirq 9\n');
    expect(readFileSync(file, 'latin1')).toBe('cpu 9 0\nsoftirq 9       \n');
    overwrite(file, 'cpu 123456789 0\nsoftirq 123456789\n');
    expect(readFileSync(file, 'latin1')).toBe('cpu 123456789 0\nsoftirq 123456789\n');
  } finally {
    rmSync(path.dirname(file), { recursive: true });
  }
});

test('a program that reads a file while its numbers grow finds no rest of a newer text at the end', () => {
  const size = { memoryMb: 512, processors: [0, 1] };
  const memory = { total: 0, cache: 0, anonymous: 0, shared: 0, mapped: 0 };
  const lists = { activeAnonymous: 0, inactiveAnonymous: 0, activeFile: 0, inactiveFile: 0 };
  const after = (hundredths: number, load: number, processes: number) =>
    usedFileTexts(size, {
      memory: { ...memory, ...lists, total: processes },
      time: { user: hundredths, system: hundredths, idle: hundredths },
      startedAt: 1_800_000_000,
      load: [load, load, load],
      processes,
    });
  const folder = mkdtempSync(path.join(os.tmpdir(), 'own-figures-'));
  try {
    const tenYears = 10 * 365 * 86_400 * 100 * 64;
    for (const [name, text] of Object.entries(after(9, 0.5, 9))) {
      const file = path.join(folder, name);
      writeFileSync(file, text);
      const reader = openSync(file, 'r');
      const whole = Buffer.alloc(8192);
      expect(readSync(reader, whole)).toBe(text.length);
      overwrite(file, after(tenYears, 1023.5, 1024)[name as 'stat']);
      expect([name, readSync(reader, whole)]).toEqual([name, 0]);
      closeSync(reader);
    }
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test('a sandbox from the pool has its own size, and so has one with all processors', async () => {
  await using host = await LocalHost.open({ warmPoolSize: 1 });
  await until(() => host.driver.poolReady === 1, 110_000);
  // Members have the default disk size of creates.
  const spec = host.spec({ cpuCount: 1, memoryMb: 300, storageGb: 10 });
  const place = await host.driver.create(spec);
  expect(place.from).toBe('pool');
  const ask =
    'nproc; head -1 /proc/meminfo; grep -c ^processor /proc/cpuinfo; cat /sys/devices/system/cpu/online | tr , "\\n" | wc -l';
  const output = async (of: SandboxPlace, asked: SandboxSpec) =>
    (await shell(of, asked, ask)).output.trim().split('\n');
  expect(await output(place, spec)).toEqual(['1', expect.stringMatching(/ 307200 kB$/), '1', '1']);
  const large = host.spec({ cpuCount: 64, memoryMb: 400 });
  const all = String(parallelism);
  expect(await output(await host.driver.create(large), large)).toEqual([
    all,
    expect.stringMatching(/ 409600 kB$/),
    all,
    all,
  ]);
});

test('sandboxes with one processor are spread, and busy ones are separated', async () => {
  await using host = await LocalHost.open();
  const readProcessor = async (place: SandboxPlace, spec: SandboxSpec) =>
    (await shell(place, spec, 'cat /sys/devices/system/cpu/online')).output.trim();
  const made: { spec: SandboxSpec; place: SandboxPlace }[] = [];
  for (let number = 0; number < parallelism + 2; number += 1) {
    const spec = host.spec({ cpuCount: 1, memoryMb: 256 });
    made.push({ spec, place: await host.driver.create(spec) });
  }
  const processors = await Promise.all(made.map(({ place, spec }) => readProcessor(place, spec)));
  // `chooseProcessors` chose where they began. One that is busy with its start may have been moved since.
  expect(new Set(processors).size).toBeGreaterThan(1);
  // Two sandboxes with the same processor become busy.
  const shared = processors.find((each, at) => processors.indexOf(each) !== at);
  const same = made.filter((_, at) => processors[at] === shared).slice(0, 2);
  expect(same).toHaveLength(2);
  for (const { place, spec } of same)
    await shell(place, spec, 'setsid sh -c "while :; do :; done" >/dev/null 2>&1 </dev/null &');
  await until(async () => {
    const [one, other] = await Promise.all(same.map(({ place, spec }) => readProcessor(place, spec)));
    return one !== other;
  }, 90_000);
}, 300_000);
