import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import { fullPath, isInstalled } from '../../platform/config/programs.mjs';
import { findHierarchies, readControllers } from './hierarchies.mjs';

/**
 * What sandboxes need from a machine, apart from programs. Set-up checks it before it installs anything, and the driver
 * at its start. Plain JavaScript, because set-up runs it with the machine's own Node and without npm packages.
 */

/** The first Linux version with an overlayfs that accepts idmapped layers. */
const oldestKernel = [5, 19];
const namespaces = ['user', 'mnt', 'pid', 'net', 'ipc', 'uts', 'cgroup'];
/** The controllers of control groups that sandboxes cannot do without. */
const neededControllers = { 1: ['cpu', 'cpuacct', 'memory', 'pids', 'freezer'], 2: ['cpu', 'memory', 'pids'] };
/** Perl's own modules, which Fedora has in packages of their own. */
const perlModules = ['Errno', 'Fcntl', 'POSIX', 'Socket'];
/** Distributions for clouds leave these out of the kernel's first package. */
const furtherModules = 'On Fedora, install kernel-modules-extra; on Ubuntu, linux-modules-extra-$(uname -r)';
/** A kernel with fewer tracked connections than this serves few sandboxes: each may have 2048. */
const fewConnections = 32_768;
const inContainer = 'A container needs the right to do this: with Docker, `--privileged --cgroupns=host`';

/** Only Debian's packages have mmdebstrap, so it may be missing where set-up has installed everything else. */
export const withoutMmdebstrap =
  'The images of the built-in templates are made with mmdebstrap, which is not installed here. Install it and the keys of the Debian archive, or set PLATFORM_BASE_IMAGE to an image in a registry. A Debian machine makes one: npm run admin -- push-template-image --template base';

/** Where the facts come from. Tests replace them. */
export const machine = {
  platform: process.platform,
  release: os.release(),
  uid: process.getuid?.(),
  isThere: fs.existsSync,
  /** @param {string} file */
  read: (file) => fs.readFileSync(file, 'latin1'),
  /** @param {string} file */
  isWritable(file) {
    try {
      fs.accessSync(file, fs.constants.W_OK);
      return true;
    } catch {
      return false;
    }
  },
  isInstalled,
  /**
   * Runs a shell script in namespaces of its own.
   * @param {string[]} kinds options of unshare(1)
   * @param {string} script
   * @returns {string | null} what it complains about when it fails
   */
  tryInside(kinds, script) {
    const { status, stderr, error } = spawnSync('unshare', [...kinds, 'sh', '-ec', script], {
      encoding: 'utf8',
      env: { PATH: fullPath(), LC_ALL: 'C' },
      timeout: 30_000,
    });
    // A busy machine is not a wrong one.
    if (error && 'code' in error && error.code === 'ETIMEDOUT') return null;
    return status === 0 ? null : (error?.message ?? stderr).trim().replaceAll(/\s+/g, ' ') || `status ${status}`;
  },
};

/**
 * The reasons why this machine cannot run sandboxes, each with what to do about it.
 * @param {typeof machine} [facts]
 * @returns {string[]}
 */
export function machineProblems(facts = machine) {
  if (facts.platform !== 'linux') return ['Sandboxes run on Linux only. Use a Linux machine or a virtual machine.'];
  const problems = [];
  const isRoot = facts.uid === 0;
  if (!isRoot) problems.push('Sandboxes need root. Run this as root, for example with sudo.');
  const [major = 0, minor = 0] = facts.release.split('.').map(Number);
  if (major < oldestKernel[0] || (major === oldestKernel[0] && minor < oldestKernel[1])) {
    problems.push(`Linux ${facts.release} is too old. Install a kernel from ${oldestKernel.join('.')} on.`);
  }
  if (!facts.isThere('/dev/loop-control')) {
    problems.push(
      '/dev/loop-control is missing: disks of sandboxes are loop devices. Run modprobe loop. In a container, pass the device.',
    );
  }
  const missing = namespaces.filter((kind) => !facts.isThere(`/proc/self/ns/${kind}`));
  if (missing.length > 0)
    problems.push(`The kernel lacks namespaces: ${missing.join(', ')}. Install one that has them.`);
  for (const kind of namespaces.filter((name) => !missing.includes(name))) {
    const file = `/proc/sys/user/max_${kind}_namespaces`;
    if (facts.isThere(file) && Number(facts.read(file)) === 0) {
      problems.push(`New namespaces are forbidden: ${file} is 0. Run sysctl -w user.max_${kind}_namespaces=65536.`);
    }
  }
  if (!/\bmqueue$/m.test(facts.read('/proc/filesystems'))) {
    problems.push('The kernel lacks POSIX message queues. Install one with CONFIG_POSIX_MQUEUE.');
  }
  if (!/^Seccomp_filters:/m.test(facts.read('/proc/self/status'))) {
    problems.push('The kernel lacks seccomp filters. Install one with CONFIG_SECCOMP_FILTER.');
  }
  problems.push(...controlGroupProblems(facts, isRoot));
  if (isRoot && missing.length === 0) problems.push(...triedProblems(facts));
  return problems;
}

/**
 * What sandboxes can do without, and settings of the kernel that are unusually low, in one line each.
 * @param {typeof machine} [facts]
 */
export function machineWarnings(facts = machine) {
  const warnings = [];
  if (!facts.isThere('/dev/fuse')) {
    warnings.push('/dev/fuse is missing, so sandboxes cannot mount object storage: run modprobe fuse');
  }
  if (!facts.isThere('/proc/self/ns/time')) {
    warnings.push('the kernel lacks time namespaces (CONFIG_TIME_NS), so sandboxes see the uptime of the machine');
  }
  if (!facts.isThere('/proc/pressure/memory')) {
    warnings.push(
      'the kernel shows no pressure (CONFIG_PSI), so it is noticed late that memory is short: add psi=1 to its command line',
    );
  }
  const setting = (/** @type {string} */ file) => (facts.isThere(file) ? Number(facts.read(file)) : null);
  if (setting('/proc/sys/vm/overcommit_memory') === 2) {
    warnings.push(
      'vm.overcommit_memory is 2, so programs in sandboxes may get no memory before their limit: set it to 0',
    );
  }
  const connections = setting('/proc/sys/net/netfilter/nf_conntrack_max');
  if (connections !== null && connections < fewConnections) {
    warnings.push(
      `net.netfilter.nf_conntrack_max is ${connections}, for the connections of all sandboxes: set it to 262144 or more`,
    );
  }
  return warnings;
}

/** @param {typeof machine} facts @param {boolean} isRoot */
function controlGroupProblems(facts, isRoot) {
  let hierarchies;
  try {
    hierarchies = findHierarchies(facts.read('/proc/self/mountinfo'));
  } catch (error) {
    return [`${/** @type {Error} */ (error).message}. Mount version 2: mount -t cgroup2 none /sys/fs/cgroup.`];
  }
  const { version, roots } = hierarchies;
  const controllers = readControllers(hierarchies, facts.read);
  const missing = neededControllers[version].filter((name) => !controllers.includes(name));
  const problems = [];
  if (missing.length > 0) {
    problems.push(
      `Control groups (version ${version}) lack the controllers ${missing.join(', ')}. Enable them: the kernel's command line may disable them (cgroup_disable=…), or a container hides them.`,
    );
  }
  if (isRoot && !roots.every((root) => facts.isWritable(root))) {
    problems.push(`Control groups are mounted read-only at ${roots[0]}. ${inContainer}.`);
  }
  if (version === 2) problems.push(...delegationProblems(facts, /** @type {string} */ (roots[0])));
  return problems;
}

/**
 * A container with a namespace of control groups has another group in the place of the topmost one.
 * @param {typeof machine} facts
 * @param {string} root
 */
function delegationProblems(facts, root) {
  // Only the topmost group lacks this file.
  const file = `${root}/cgroup.type`;
  const type = facts.isThere(file) ? facts.read(file).trim() : 'domain';
  return type === 'domain'
    ? []
    : [`The control group at ${root} is "${type}". Sandboxes need a domain. ${inContainer}.`];
}

/**
 * What only a try shows, because the kernel loads modules on demand and a container may forbid what the kernel has.
 * @param {typeof machine} facts
 */
function triedProblems(facts) {
  if (!facts.isInstalled('unshare')) return [];
  const kinds = ['--user', '--mount', '--pid', '--net', '--ipc', '--uts', '--cgroup', '--fork'];
  const refused = facts.tryInside(kinds, ':');
  if (refused)
    return [`New namespaces are refused (${refused}). Check /proc/sys/user/max_user_namespaces. ${inContainer}.`];
  const problems = [];
  const overlay =
    'mount -t tmpfs none /mnt; cd /mnt; mkdir lower upper work; mount -t overlay none -o lowerdir=lower,upperdir=upper,workdir=work /mnt';
  const noOverlay = facts.tryInside(['--mount', '--propagation', 'private'], overlay);
  if (noOverlay) problems.push(`overlayfs cannot be mounted (${noOverlay}). Run modprobe overlay. ${inContainer}.`);
  // A module in a file counts: the kernel loads it with the first mount.
  const noExt4 = facts.tryInside(
    [],
    'grep -qw ext4 /proc/filesystems || ! test -e /lib/modules/$(uname -r)/modules.dep || modprobe --dry-run ext4',
  );
  if (noExt4) problems.push(`The kernel lacks ext4, the file system of disks (${noExt4}). Install its modules.`);
  if (facts.isInstalled('ip')) {
    for (const [kind, words] of Object.entries(links)) {
      const refused = facts.tryInside(['--net'], `ip link add probe0 type ${words}`);
      if (refused)
        problems.push(
          `Links of the kind ${kind} cannot be made (${refused}). Run modprobe ${kind}. ${furtherModules}.`,
        );
    }
  }
  if (facts.isInstalled('nft')) {
    const noRules = facts.tryInside(['--net'], `nft -f - <<'END'\n${firewallProbe}END`);
    if (noRules) {
      problems.push(
        `nftables refuses a rule of the sandboxes' firewall (${noRules}). Run modprobe nf_tables, or install the kernel's modules. ${furtherModules}.`,
      );
    }
  }
  const perl = `perl ${perlModules.map((name) => `-M${name}`).join(' ')} -e 1`;
  const noModules = facts.isInstalled('perl') ? facts.tryInside([], perl) : null;
  if (noModules) problems.push(`Perl lacks modules (${noModules.slice(0, 80)}). On Fedora, install the package perl.`);
  return problems;
}

const links = { veth: 'veth peer name probe1', bridge: 'bridge' };

/** Each kind of expression in the sandboxes' firewall (`runtime/oci/nft-rules.ts`), because each is a module. */
const firewallProbe = `table inet probe {
  set flows { type ipv4_addr; size 65535; flags dynamic; }
  set rates { type ipv4_addr; size 65535; flags dynamic, timeout; timeout 10s; }
  map routes { type inet_service : ipv4_addr . inet_service; }
  chain first { type filter hook prerouting priority raw; fib saddr . iif oif missing drop; }
  chain forward {
    type filter hook forward priority filter;
    iifgroup 1 ct state established accept
    ct direction reply ct status dnat drop
    update @rates { ip saddr limit rate over 9/second } drop
    add @flows { ip saddr ct count over 9 } drop
    meta l4proto tcp reject with tcp reset
    reject with icmpx admin-prohibited
  }
  chain own { type filter hook output priority filter; meta skgid 1 drop; }
  chain inward { type nat hook prerouting priority dstnat; fib daddr type local dnat ip to udp dport map @routes; }
  chain outward { type nat hook postrouting priority srcnat; masquerade; }
}
`;
