import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import { installCommand, packageManager } from '../../platform/config/package-manager.mjs';
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
  if (!/^Seccomp_filters:/m.test(facts.read('/proc/self/status'))) {
    problems.push('The kernel lacks seccomp filters. Install one with CONFIG_SECCOMP_FILTER.');
  }
  problems.push(...controlGroupProblems(facts, isRoot));
  if (isRoot && missing.length === 0) problems.push(...triedProblems(facts));
  return problems;
}

/** What users can do without, in one line each. */
export function machineWarnings(facts = machine) {
  if (facts.isThere('/dev/fuse')) return [];
  return ['/dev/fuse is missing, so sandboxes cannot mount object storage: run modprobe fuse'];
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
  return problems;
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
  if (['nft', 'ip'].every((program) => facts.isInstalled(program))) {
    const noNetwork = facts.tryInside(
      ['--net'],
      'nft add table inet probe; ip link add probe0 type veth peer name probe1',
    );
    if (noNetwork) problems.push(`nftables or veth links do not work (${noNetwork}). Run modprobe nf_tables veth.`);
  }
  return problems;
}
