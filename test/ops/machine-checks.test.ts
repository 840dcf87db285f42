import { execFileSync, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import net, { type AddressInfo } from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { diskProblems, portProblems } from '../../ops/setup/machine-checks.mjs';
import { machine, machineProblems, machineWarnings } from '../../runtime/machine/problems.mjs';

/** The checks of a machine before set-up: each with facts of a test, and some on this machine. */
const root = path.resolve(import.meta.dirname, '../..');

const unified = '30 1 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n';
const version1 = (controllers: string[]) =>
  controllers.map((name) => `31 30 0:27 / /sys/fs/cgroup/${name} rw - cgroup cgroup rw,${name}\n`).join('');

interface Facts {
  mounts?: string;
  controllers?: string;
  status?: string;
  without?: string[];
  readOnly?: string[];
  refused?: string;
  /** Contents of further files. */
  texts?: Record<string, string>;
}

/** A machine without problems, but for the given ones. */
function facts(given: Facts & Partial<typeof machine> = {}): typeof machine {
  const texts: Record<string, string> = {
    '/proc/self/mountinfo': given.mounts ?? unified,
    '/sys/fs/cgroup/cgroup.controllers': given.controllers ?? 'cpuset cpu io memory pids\n',
    '/proc/self/status': given.status ?? 'Name:\tnode\nSeccomp_filters:\t0\n',
    '/proc/filesystems': 'nodev\tmqueue\n\text4\n',
    '/proc/sys/vm/overcommit_memory': '0\n',
    '/proc/sys/net/netfilter/nf_conntrack_max': '262144\n',
    ...given.texts,
  };
  // Files that other machines lack, or that have another content.
  const optional = /^\/proc\/sys\/user\/|\/cgroup\.type$/;
  return {
    ...{ platform: 'linux', release: '6.1.0-18-amd64', uid: 0 },
    isThere: (file) =>
      !(given.without ?? []).includes(String(file)) && (!optional.test(String(file)) || String(file) in texts),
    read: (file) => texts[file]!,
    isWritable: (file) => !(given.readOnly ?? []).includes(file),
    isInstalled: () => true,
    tryInside: (_kinds, script) => (given.refused && script.includes(given.refused) ? 'Operation not permitted' : null),
    ...given,
  };
}

test('a machine that has everything has no problem, with either version of control groups', () => {
  expect(machineProblems(facts())).toEqual([]);
  expect(machineProblems(facts({ mounts: version1(['cpu,cpuacct', 'memory', 'pids', 'freezer']) }))).toEqual([]);
  expect(machineWarnings(facts())).toEqual([]);
});

test.each<[string, Parameters<typeof facts>[0], RegExp]>([
  ['another system', { platform: 'darwin' }, /Linux only.*virtual machine/],
  ['a user who is not root', { uid: 1000 }, /need root.*sudo/],
  [
    'an old kernel',
    { release: '5.15.0-91-generic' },
    /Linux 5\.15\.0-91-generic is too old\. Install a kernel from 5\.19/,
  ],
  ['no loop devices', { without: ['/dev/loop-control'] }, /\/dev\/loop-control is missing.*modprobe loop/],
  ['no user namespaces', { without: ['/proc/self/ns/user'] }, /lacks namespaces: user\./],
  ['no seccomp filters', { status: 'Name:\tnode\n' }, /CONFIG_SECCOMP_FILTER/],
  ['no control groups', { mounts: '' }, /not mounted at \/sys\/fs\/cgroup\. Mount version 2: mount -t cgroup2/],
  ['no memory controller (2)', { controllers: 'cpu pids\n' }, /\(version 2\) lack the controllers memory\./],
  [
    'no memory controller (1)',
    { mounts: version1(['cpu,cpuacct', 'pids', 'freezer']) },
    /\(version 1\) lack the controllers memory\./,
  ],
  ['read-only control groups', { readOnly: ['/sys/fs/cgroup'] }, /read-only at \/sys\/fs\/cgroup\. .*--privileged/],
  ['forbidden namespaces', { refused: ':' }, /New namespaces are refused \(Operation not permitted\).*max_user_namesp/],
  ['no overlayfs', { refused: 'overlay' }, /overlayfs cannot be mounted \(Operation not permitted\).*modprobe overlay/],
  [
    'nftables without an expression',
    { refused: 'nft' },
    /refuses a rule .*\(Operation not permitted\)\. Run modprobe nf_tables.*kernel-modules-extra.*linux-modules-extra/,
  ],
  ['no veth', { refused: 'veth' }, /kind veth cannot be made.*modprobe veth/],
  ['no bridges', { refused: 'type bridge' }, /kind bridge cannot be made.*modprobe bridge/],
  ['no ext4', { refused: 'ext4' }, /lacks ext4/],
  ['no message queues', { texts: { '/proc/filesystems': '\text4\n' } }, /CONFIG_POSIX_MQUEUE/],
  ['Perl without its modules', { refused: 'perl' }, /Perl lacks modules.*On Fedora, install the package perl/],
  [
    'forbidden user namespaces',
    { texts: { '/proc/sys/user/max_user_namespaces': '0\n' } },
    /max_user_namespaces is 0\. Run sysctl -w user\.max_user_namespaces=/,
  ],
  [
    'a threaded control group',
    { texts: { '/sys/fs/cgroup/cgroup.type': 'threaded\n' } },
    /is "threaded"\. Sandboxes need a domain/,
  ],
])('%s is a problem, with what to do', (_what, given, message) => {
  const problems = machineProblems(facts(given));
  expect(problems).toHaveLength(1);
  expect(problems[0]).toMatch(message);
});

test('all problems are found at once, and programs that are not installed yet are not tried', () => {
  const problems = machineProblems(facts({ uid: 1000, release: '4.19.0', without: ['/dev/loop-control'] }));
  expect(problems).toHaveLength(3);
  const tried: string[] = [];
  const isInstalled = (program: string) => program !== 'nft';
  const tryInside: typeof machine.tryInside = (_kinds, script) => {
    tried.push(script);
    return null;
  };
  expect(machineProblems(facts({ isInstalled, tryInside }))).toEqual([]);
  expect(tried.join()).not.toContain('nft');
});

test('without /dev/fuse only mounts are impossible, so it is a note', () => {
  const without = facts({ without: ['/dev/fuse'] });
  expect(machineProblems(without)).toEqual([]);
  expect(machineWarnings(without)).toEqual([expect.stringMatching(/object storage: run modprobe fuse/)]);
});

test('a container whose control group already gives its controllers has no problem', () => {
  const texts = {
    '/sys/fs/cgroup/cgroup.type': 'domain\n',
    '/sys/fs/cgroup/cgroup.subtree_control': 'cpu memory pids\n',
    '/sys/fs/cgroup/cgroup.procs': '1\n',
  };
  expect(machineProblems(facts({ texts }))).toEqual([]);
});

test.each<[string, Parameters<typeof facts>[0], RegExp]>([
  ['no time namespaces', { without: ['/proc/self/ns/time'] }, /CONFIG_TIME_NS.*uptime/],
  ['no pressure figures', { without: ['/proc/pressure/memory'] }, /psi=1/],
  ['memory that is never promised twice', { texts: { '/proc/sys/vm/overcommit_memory': '2\n' } }, /set it to 0/],
  [
    'few tracked connections',
    { texts: { '/proc/sys/net/netfilter/nf_conntrack_max': '4096\n' } },
    /nf_conntrack_max is 4096.*262144/,
  ],
])('%s is only a note, with what to do', (_what, given, message) => {
  expect(machineProblems(facts(given))).toEqual([]);
  expect(machineWarnings(facts(given))).toEqual([expect.stringMatching(message)]);
});

test('the kernel of this machine refuses a rule that it does not know, and says which', () => {
  const rules =
    'nft -f - <<\'END\'\ntable inet probe { chain a { type filter hook forward priority 0; ct helper set "no-such"; }; }\nEND';
  expect(machine.tryInside(['--net'], rules)).toMatch(/Error: .*no-such/);
});

test('this machine passes, and its kernel refuses what a try asks too much', () => {
  expect(machineProblems()).toEqual([]);
  expect(machine.tryInside(['--mount'], 'mount -t no-such-file-system none /mnt')).toMatch(/^mount: \/mnt: /);
});

test('a taken port of a setting is a problem, a free one and one without a setting are none', async () => {
  const listener = net.createServer().listen(0, '127.0.0.1');
  await once(listener, 'listening');
  const { port } = listener.address() as AddressInfo;
  const taken = [
    `PLATFORM_API_PORT: port ${port} is taken on 127.0.0.1. Stop the program that uses it, or set another port.`,
  ];
  expect(await portProblems({ PLATFORM_API_PORT: `${port}` })).toEqual(taken);
  listener.close();
  await once(listener, 'close');
  expect(await portProblems({ PLATFORM_API_PORT: `${port}`, PLATFORM_GATEWAY_PORT: '', PLATFORM_URL: 'x' })).toEqual(
    [],
  );
});

test('a disk that is too small for the sum of all steps is a problem, before its folder exists', () => {
  const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'small-disk-'));
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=20m', 'small', dir]);
  try {
    const cache = path.join(dir, 'not/there/yet');
    expect(diskProblems([{ folder: cache, mb: 12 }])).toEqual([]);
    const [problem, ...others] = diskProblems([
      { folder: cache, mb: 12 },
      { folder: dir, mb: 12 },
    ]);
    expect(others).toEqual([]);
    expect(problem).toMatch(/not\/there\/yet has 0\.0 GB free, and 0\.0 GB are needed there\. Make room, or set/);
    // A new data folder also needs the space above which sandboxes start.
    expect(diskProblems([], [path.join(dir, 'data')])).toHaveLength(1);
  } finally {
    execFileSync('umount', [dir]);
    fs.rmdirSync(dir);
  }
});

test('set-up names everything that is wrong at once, installs nothing and prints no trace', async () => {
  const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'wrong-machine-'));
  const listener = net.createServer().listen(0, '127.0.0.1');
  await once(listener, 'listening');
  const { port } = listener.address() as AddressInfo;
  try {
    fs.chmodSync(dir, 0o755);
    const copy = path.join(dir, 'copy');
    for (const name of ['ops', 'platform', 'runtime', 'package-lock.json'])
      fs.cpSync(path.join(root, name), path.join(copy, name), { recursive: true });
    // Without loop devices, on a small disk, as another user.
    const script = `mount -t tmpfs -o size=20m small "$1"; mount -t tmpfs none /dev; cd "$2"
      exec setpriv --reuid=65534 --clear-groups "$3" ops/setup/main.mjs`;
    fs.mkdirSync(path.join(dir, 'cache'));
    const words = ['--mount', '--propagation', 'private', 'sh', '-ec', script, 'sh', path.join(dir, 'cache'), copy];
    const { status, stdout, stderr } = spawnSync('unshare', [...words, process.execPath], {
      encoding: 'utf8',
      env: { PATH: process.env.PATH, PLATFORM_CACHE_DIR: path.join(dir, 'cache'), PLATFORM_API_PORT: `${port}` },
    });
    expect({ status, stdout }).toEqual({ status: 1, stdout: '' });
    const [empty, title, ...problems] = stderr.trimEnd().split('\n');
    expect([empty, title]).toEqual(['', 'The platform cannot run on this machine yet. Nothing was installed.']);
    expect(problems).toEqual([
      expect.stringMatching(/^ {2}- Sandboxes need root/),
      expect.stringMatching(/^ {2}- \/dev\/loop-control is missing/),
      expect.stringMatching(/^ {2}- The disk of .*cache has 0\.0 GB free, and \d\.\d GB are needed/),
      expect.stringMatching(/^ {2}- PLATFORM_API_PORT: port \d+ is taken/),
    ]);
    expect(fs.readdirSync(path.join(dir, 'cache'))).toEqual([]);
    expect(fs.existsSync(path.join(copy, 'node_modules'))).toBe(false);
  } finally {
    listener.close();
    fs.rmSync(dir, { recursive: true, force: true });
  }
});
