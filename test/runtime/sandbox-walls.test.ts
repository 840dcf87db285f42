import { existsSync, readdirSync, readFileSync, readlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import type { SandboxPlace, SandboxSpec } from '../../runtime/driver.ts';
import { readIfThere } from '../support/read-if-there.ts';
import { numberOfCall } from '../support/system-call-numbers.ts';
import { LocalHost, onHost, shell } from './local-host.ts';

/** Restrictions of a sandbox, tested from inside as root. */
let host: LocalHost;
let spec: SandboxSpec;
let place: SandboxPlace;
beforeAll(async () => {
  host = await LocalHost.open();
  spec = host.spec({ memoryMb: 1024 });
  place = await host.driver.create(spec);
}, 300_000);
afterAll(() => host.closeEmpty());

const inside = (script: string) => shell(place, spec, script);
const says = async (script: string) => (await inside(script)).output;
const processes = async () => (await host.inventory()).processes;

const findAgents = (pids: number[]) =>
  pids.filter((pid) => readFileSync(`/proc/${pid}/cmdline`, 'latin1').includes('/agent.cjs'));

/** The open files of a process, or an empty list when it has ended. */
function listOpenFiles(pid: number): string[] {
  try {
    return readdirSync(`/proc/${pid}/fd`).map((fd) => readlinkSync(`/proc/${pid}/fd/${fd}`));
  } catch (error) {
    if (['ENOENT', 'ESRCH'].includes((error as NodeJS.ErrnoException).code ?? '')) return [];
    throw error;
  }
}

test('its root is an unprivileged user on the host, and each sandbox has its own ids', async () => {
  const other = host.spec();
  await host.driver.create(other);
  const owners = new Set<string>();
  for (const pid of await processes()) {
    const [, uid] = /^Uid:\s+(\d+)/m.exec(readIfThere(`/proc/${pid}/status`)) ?? [];
    if (uid === undefined) continue;
    expect(Number(uid)).toBeGreaterThanOrEqual(0x7000_0000);
    owners.add(uid);
  }
  expect(owners.size).toBe(2);
  expect(await says('id -u')).toBe('0');
  await host.driver.remove(other.sandboxId);
});

test('it has its own namespaces', async () => {
  const [pid] = await processes();
  for (const kind of ['pid', 'mnt', 'uts', 'ipc', 'net', 'cgroup', 'user']) {
    expect(onHost('readlink', `/proc/${pid}/ns/${kind}`)).not.toBe(onHost('readlink', `/proc/self/ns/${kind}`));
  }
  expect(await says('ls /proc | grep -c "^[0-9]"')).toMatch(/^[4-9]$/);
});

test('no secret is in an argument or in the environment of its processes', async () => {
  for (const pid of [...(await processes()), ...(await host.inventory()).shims]) {
    for (const file of ['cmdline', 'environ']) {
      expect(readIfThere(`/proc/${pid}/${file}`)).not.toMatch(/-token-of-the-test/);
    }
  }
  const kept = onHost('grep', '-rlaE', '--exclude=disk.ext4', 'sbx-', path.join(host.dataDir, 'oci/sandboxes'));
  expect(kept).not.toBe('');
  for (const file of kept.split('\n')) expect(readFileSync(file, 'latin1')).not.toMatch(/-token-of-the-test/);
});

test('limits of memory, swap, processors and processes are enforced', async () => {
  const limit = await says(
    'cat /sys/fs/cgroup/memory/memory.limit_in_bytes 2>/dev/null || cat /sys/fs/cgroup/memory.max',
  );
  expect(Number(limit)).toBe(1024 ** 3);
  const eater = await inside('python3 -c "x = bytearray(1400 << 20)"');
  expect(eater.exitCode).toBe(137);
  const spin = 'i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done';
  const times = await says(`cat /proc/uptime; (${spin}) & (${spin}) & (${spin}) & wait; times; cat /proc/uptime`);
  const [before, after] = [...times.matchAll(/^(\d+\.\d+) \d+\.\d+$/gm)].map((match) => Number(match[1]));
  const [, user, system] = /^\d+m[\d.]+s \d+m[\d.]+s\n\d+m([\d.]+)s \d+m([\d.]+)s$/m.exec(times)!;
  expect(Number(user) + Number(system)).toBeLessThan(after! - before! + 0.2);
  const fork =
    'import os,time\nn=0\ntry:\n  while True:\n    p=os.fork()\n    if p==0: time.sleep(60)\n    n+=1\nexcept OSError as e: print(n, e.errno)';
  const [forked, errno] = (await says(`python3 -c '${fork}'; pkill -9 python3`)).split('\n')[0]!.split(' ').map(Number);
  expect(errno).toBe(11);
  expect(forked).toBeGreaterThan(900);
  expect(forked).toBeLessThan(1024);
}, 300_000);

test('a sandbox at its limit of processes keeps its agent, also if that was its first command', async () => {
  const spec = host.spec({ memoryMb: 1024 });
  const place = await host.driver.create(spec);
  const agents = findAgents(await processes());
  // Only commands of the shell itself run after the subshell, because nothing else can start at the limit.
  const bomb =
    '(while :; do sleep 600 & done) 2>/tmp/errors; set -- /proc/[0-9]*; echo $#; read error </tmp/errors; echo $error';
  const [count, error] = (await shell(place, spec, bomb)).output.split('\n');
  expect(error).toMatch(/Cannot fork/);
  expect(Number(count)).toBeGreaterThan(900);
  expect(findAgents(await processes())).toEqual(agents);
  await host.driver.remove(spec.sandboxId);
}, 300_000);

test('the disk has the requested size, and is full at it, in bytes and in files', async () => {
  const size = Number(await says('df --output=size -B1 / | tail -1'));
  expect(size).toBeGreaterThan(0.9 * 1024 ** 3);
  expect(size).toBeLessThanOrEqual(1024 ** 3);
  const full = await inside(
    'head -c 1100M /dev/zero >/root/big; status=$?; stat -c %s /root/big; rm /root/big; exit $status',
  );
  expect(full.exitCode).not.toBe(0);
  expect(full.output).toMatch(/No space left on device/);
  expect(Number(/^\d+$/m.exec(full.output)![0])).toBeLessThan(1024 ** 3);
  expect(
    await says('mkdir /root/many && cd /root/many && seq 70000 | xargs touch; ls | wc -l; rm -r /root/many'),
  ).toMatch(/No space left on device[\s\S]*\n6[45]\d{3}$/);
  expect((await inside('echo still >/root/writable && cat /root/writable')).output).toBe('still');
}, 300_000);

test.each([
  ['mount a file system', 'mount -t tmpfs x /mnt'],
  ['remount the agent for writing', 'mount -o remount,rw /.platform'],
  ['write to the agent', 'echo x >>/.platform/agent/agent.cjs'],
  ['replace the runtime', 'mv /.platform/bin/node /tmp/'],
  ['make another user namespace', 'unshare --user true'],
  ['make another mount namespace', 'unshare --mount true'],
  ['enter a namespace', 'nsenter --target 1 --net --uts true'],
  ['make a device', 'mknod /tmp/disk b 7 0 && head -c1 /tmp/disk'],
  ['read kernel memory', 'head -c1 /dev/mem || head -c1 /proc/kcore | grep -q .'],
  ['write a kernel setting', 'echo 1 >/proc/sys/kernel/panic'],
  ['change its own network settings', 'ip link set dev eth0 down || ip address add 10.0.0.1/8 dev eth0'],
  ['press a system request key', 'echo b >/proc/sysrq-trigger'],
  [
    'load a module',
    `python3 -c "import ctypes,sys; sys.exit(ctypes.CDLL(None).syscall(${numberOfCall('finit_module')}, 0, b'', 0) != 0)"`,
  ],
  ['open a raw socket', 'python3 -c "import socket; socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)"'],
  ['open a packet socket', 'python3 -c "import socket; socket.socket(17, 3, 0)"'],
  ['open a socket to the hypervisor', 'python3 -c "import socket; socket.socket(40, 1, 0)"'],
  [
    'use io_uring',
    `python3 -c "import ctypes,sys; sys.exit(ctypes.CDLL(None).syscall(${numberOfCall('io_uring_setup')}, 1, 0) < 0)"`,
  ],
  [
    'load a BPF program',
    `python3 -c "import ctypes,sys; sys.exit(ctypes.CDLL(None).syscall(${numberOfCall('bpf')}, 5, 0, 0) < 0)"`,
  ],
  [
    'use the kernel keyring',
    `python3 -c "import ctypes,sys; sys.exit(ctypes.CDLL(None).syscall(${numberOfCall('keyctl')}, 0, -3, 1) < 0)"`,
  ],
  ['reach a control group', 'mkdir /sys/fs/cgroup/memory/mine || echo 1 >/sys/fs/cgroup/memory/release_agent'],
  ['change a host device', 'chmod 600 /dev/null || chown 1 /dev/zero'],
  ['lower its kill priority', 'echo -1000 >/proc/self/oom_score_adj'],
  ['raise its limits', 'ulimit -Hn $(($(ulimit -Hn) + 1))'],
  ['set the clock', 'date -s "2001-01-01"'],
  ['rename itself', 'hostname other'],
  ['change its root by pivot', 'pivot_root / /tmp'],
])('it cannot %s', async (_what, script) => {
  expect((await inside(script)).exitCode).not.toBe(0);
});

test('the host is unchanged', () => {
  expect(onHost('stat', '-c', '%u %g %a', '/dev/null')).toBe('0 0 666');
  expect(onHost('stat', '-c', '%u %g %a', '/dev/zero')).toBe('0 0 666');
});

test('its user may become its root, ping itself and serve port 80', async () => {
  expect(await says('su user -c "sudo -n id -u"')).toBe('0');
  expect((await inside('su user -c "ping -c1 -W20 127.0.0.1"')).exitCode).toBe(0);
  const serve = 'import socket; s = socket.socket(); s.bind(("0.0.0.0", 80))';
  expect((await inside(`su user -c '/usr/bin/python3 -c "${serve.replaceAll('"', '\\"')}"'`)).exitCode).toBe(0);
});

test('nothing in it reveals a neighbour', async () => {
  const neighbour = host.spec();
  await host.driver.create(neighbour);
  const { output } =
    await inside(`cat /proc/mounts /proc/self/mountinfo /proc/cgroups /proc/self/cgroup /proc/partitions
    find /sys -name backing_file -exec cat {} + ; ls -R /sys/fs/cgroup; ls /proc/net /sys/class/net; ps aux; echo end`);
  expect(output).toMatch(/end$/);
  expect(output).not.toContain(neighbour.sandboxId);
  expect(output).not.toContain(host.dataDir);
  await host.driver.remove(neighbour.sandboxId);
});

test('its processes have no open files of the host', async () => {
  for (const pid of await processes()) {
    for (const target of listOpenFiles(pid)) {
      expect(target).toMatch(
        /^(socket|pipe|anon_inode):|^\/(dev\/null|mnt\/tail\/agent\.log|agent\.log|run\/platform\/agent\.log)$/,
      );
    }
  }
});

test('a link at a place where the host reads is not followed', async () => {
  const secret = path.join(host.dataDir, 'secret');
  writeFileSync(secret, 'not for sandboxes');
  const trap = host.spec();
  const trapPlace = await host.driver.create(trap);
  await shell(
    trapPlace,
    trap,
    `ln -sf ${secret} /run/platform/command.tail; rm /run/platform/agent.log; mkfifo /run/platform/agent.log`,
  );
  await host.driver.stop(trap.sandboxId);
  const folder = path.join(host.dataDir, 'oci/sandboxes', trap.sandboxId);
  expect(existsSync(path.join(folder, 'command.tail'))).toBe(false);
  expect(existsSync(path.join(folder, 'agent.log'))).toBe(false);
  await host.driver.remove(trap.sandboxId);
});

test('the folder that the host reads is small', async () => {
  const { exitCode, output } = await inside(
    'head -c 1M /dev/zero >/run/platform/big; stat -c %s /run/platform/big; rm /run/platform/big; exit 1',
  );
  expect(exitCode).toBe(1);
  expect(Number(/^\d+$/m.exec(output)![0])).toBeLessThanOrEqual(65_536);
});
