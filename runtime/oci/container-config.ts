import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { agentPort } from '../sandbox-agent/agent-client.ts';
import { agentWords, initWords, runtimeMount } from '../sandbox-agent/runtime-folder.ts';
import type { SandboxConnection } from './network.ts';
import { ownFileDestinations, ownFileTexts } from './own-files.ts';
import type { SeccompConfig } from './seccomp.ts';
import type { SelinuxContexts } from './selinux.ts';

export interface ContainerPlan {
  runtime: 'crun' | 'runc';
  hostname: string;
  /** Relative to the root of the hierarchies. */
  cgroupPath: string;
  resources: object;
  connection: SandboxConnection;
  seccomp: SeccompConfig;
  /** Null: without SELinux. */
  selinux: SelinuxContexts | null;
}

/** A folder of the sandbox that the host reads after the sandbox has ended. */
export const tailMount = '/run/platform';
/** The shim mounts the sandbox's user namespace here, in its own mount namespace. */
const userNamespaceFile = '/mnt/user';
/** The maximum number of open terminals in one sandbox. The kernel has one limit for all sandboxes. */
export const terminalLimit = 128;

/**
 * The capabilities of root in a sandbox. Left out are NET_RAW (no forged packets), NET_ADMIN, SYS_ADMIN, MKNOD,
 * SYS_PTRACE (a user may debug its own processes without it), and all capabilities with effects outside the user
 * namespace.
 */
const capabilities = [
  'AUDIT_WRITE',
  'CHOWN',
  'DAC_OVERRIDE',
  'FOWNER',
  'FSETID',
  'KILL',
  'NET_BIND_SERVICE',
  'SETFCAP',
  'SETGID',
  'SETPCAP',
  'SETUID',
  'SYS_CHROOT',
].map((name) => `CAP_${name}`);

/**
 * Hidden files. They would reveal other sandboxes, the host's load and memory, or the host itself. A counter that one
 * sandbox can change and another can read is a covert channel between them.
 */
const maskedPaths = [
  '/proc/acpi',
  '/proc/asound',
  '/proc/buddyinfo',
  '/proc/bus',
  '/proc/cmdline',
  '/proc/consoles',
  '/proc/driver',
  '/proc/dynamic_debug',
  '/proc/fs',
  '/proc/interrupts',
  '/proc/iomem',
  '/proc/ioports',
  '/proc/irq',
  '/proc/kallsyms',
  '/proc/kcore',
  '/proc/key-users',
  '/proc/keys',
  '/proc/latency_stats',
  '/proc/locks',
  '/proc/mdstat',
  '/proc/modules',
  '/proc/mtrr',
  '/proc/pagetypeinfo',
  '/proc/partitions',
  '/proc/pressure',
  '/proc/sched_debug',
  '/proc/schedstat',
  '/proc/scsi',
  '/proc/slabinfo',
  '/proc/softirqs',
  '/proc/sys/fs/aio-nr',
  '/proc/sys/fs/dentry-state',
  '/proc/sys/fs/file-nr',
  '/proc/sys/fs/inode-nr',
  '/proc/sys/fs/inode-state',
  '/proc/sys/fs/quota',
  '/proc/sys/kernel/pty/nr',
  '/proc/sys/kernel/random/boot_id',
  '/proc/timer_list',
  '/proc/timer_stats',
  '/proc/tty/driver',
  '/proc/vmallocinfo',
  '/proc/zoneinfo',
  '/sys/block',
  '/sys/bus',
  '/sys/class/bdi',
  '/sys/class/block',
  '/sys/class/thermal',
  '/sys/dev/block',
  '/sys/devices/system/clockevents',
  '/sys/devices/system/memory',
  '/sys/devices/system/node',
  '/sys/devices/virtual/bdi',
  '/sys/devices/virtual/block',
  '/sys/devices/virtual/powercap',
  '/sys/devices/virtual/thermal',
  '/sys/devices/virtual/workqueue',
  '/sys/firmware',
  '/sys/kernel',
  '/sys/module',
  '/sys/power',
];
/** The folders in these differ between machines, so they are listed at run time. */
const maskedFoldersBelow: Record<string, RegExp> = {
  // Hides all control groups except the sandbox's own.
  '/sys/fs': /^(?!cgroup$)/,
  // Hides the host's hardware. The two other folders have only processors and the sandbox's own link.
  '/sys/devices': /^(?!(system|virtual)$)/,
  // Hides the state, speed and temperature of each processor.
  '/sys/devices/system/cpu': /^(cpufreq|cpuidle)$/,
};
const maskedFoldersOfProcessors = ['cpufreq', 'cpuidle', 'thermal_throttle'];
export const readonlyPaths = ['/proc/sys', '/proc/sysrq-trigger'];

/** Files that programs need. The sandbox sees its own contents there (`own-files.ts`). */
const ownFiles = Object.keys(ownFileTexts({ memoryMb: 1, processors: [0] })).filter((name) => name !== 'empty');
/** The only paths below `/proc` that runc accepts as mount points. */
const boundByRunc = new Set(['diskstats', 'loadavg', 'meminfo', 'stat', 'swaps'].map((name) => `/proc/${name}`));

/** A path where the sandbox sees its own file or folder `name` instead of the host's. */
interface OwnPath {
  destination: string;
  name: string;
}

/**
 * Own files and hidden paths. Paths are hidden with files of the sandbox, because runtimes would hide them with a file
 * that all sandboxes share.
 */
function ownPaths(): OwnPath[] {
  return [
    ...ownFiles.map((name) => ({ destination: ownFileDestinations[name] ?? `/proc/${name}`, name })),
    ...presentMaskedPaths().map((destination) => ({
      destination,
      name: statSync(destination).isDirectory() ? 'folder' : 'empty',
    })),
  ];
}

const isBoundBy = (runtime: 'crun' | 'runc', { destination }: OwnPath) =>
  runtime === 'crun' || !destination.startsWith('/proc/') || boundByRunc.has(destination);

/** Paths that the shim binds before any process of the sandbox runs, because the runtime refuses to bind them. */
export function pathsBoundByShim(runtime: 'crun' | 'runc'): OwnPath[] {
  return ownPaths().filter((each) => !isBoundBy(runtime, each));
}

/** The masked paths that exist on this machine. */
export function presentMaskedPaths(): string[] {
  const below = Object.entries(maskedFoldersBelow).flatMap(([folder, pattern]) =>
    foldersIn(folder).flatMap((name) => (pattern.test(name) ? [`${folder}/${name}`] : [])),
  );
  const processors = foldersIn('/sys/devices/system/cpu').filter((name) => /^cpu\d+$/.test(name));
  const ofProcessors = processors.flatMap((name) =>
    maskedFoldersOfProcessors.map((folder) => `/sys/devices/system/cpu/${name}/${folder}`),
  );
  return [...maskedPaths, ...below, ...ofProcessors].filter((each) => existsSync(each));
}

const foldersIn = (folder: string) =>
  existsSync(folder)
    ? readdirSync(folder, { withFileTypes: true }).flatMap((entry) => (entry.isDirectory() ? [entry.name] : []))
    : [];

/**
 * The container's configuration (OCI runtime specification) for the folders that the shim prepares in the bundle:
 * `root`, `tail`, `platform`. It contains no secret.
 */
export function containerConfig(plan: ContainerPlan): object {
  const { connection, seccomp } = plan;
  const bindOwn = ({ destination, name }: OwnPath) => ({
    destination,
    type: 'bind',
    source: `own/${name}`,
    options: ['bind', 'ro', 'nosuid', 'nodev', 'noexec'],
  });
  const own = ownPaths().filter((each) => isBoundBy(plan.runtime, each));
  const ids = [{ containerID: 0, hostID: connection.uidBase, size: 65536 }];
  const bindTail = (name: string) => ({
    destination: `/etc/${name}`,
    type: 'bind',
    source: `tail/${name}`,
    options: ['bind', 'rw', 'nosuid', 'nodev', 'noexec'],
  });
  return {
    ociVersion: '1.0.2',
    root: { path: 'root', readonly: false },
    hostname: plan.hostname,
    annotations: seccomp.annotations,
    process: buildProcess(initWords, [], plan.selinux),
    mounts: [
      { destination: '/proc', type: 'proc', source: 'proc', options: ['nosuid', 'noexec', 'nodev'] },
      // The runtime uses a bound folder unchanged, and mounts no device of the host.
      { destination: '/dev', type: 'bind', source: 'dev', options: ['bind', 'rw', 'nosuid', 'noexec'] },
      {
        destination: '/dev/pts',
        type: 'devpts',
        source: 'devpts',
        options: ['nosuid', 'noexec', 'newinstance', 'ptmxmode=0666', 'mode=0620', 'gid=5', `max=${terminalLimit}`],
      },
      tmpfs('/dev/shm', ['nosuid', 'noexec', 'nodev', 'mode=1777', 'size=512m']),
      { destination: '/dev/mqueue', type: 'mqueue', source: 'mqueue', options: ['nosuid', 'noexec', 'nodev'] },
      { destination: '/sys', type: 'sysfs', source: 'sysfs', options: ['nosuid', 'noexec', 'nodev', 'ro'] },
      {
        destination: '/sys/fs/cgroup',
        type: 'cgroup',
        source: 'cgroup',
        options: ['nosuid', 'noexec', 'nodev', 'relatime', 'ro'],
      },
      {
        destination: runtimeMount,
        type: 'bind',
        source: 'platform',
        options: ['bind', 'ro', 'nosuid', 'nodev'],
      },
      { destination: tailMount, type: 'bind', source: 'tail', options: ['bind', 'rw', 'nosuid', 'nodev', 'noexec'] },
      ...['hosts', 'hostname', 'resolv.conf'].map(bindTail),
      ...own.map(bindOwn),
    ],
    linux: {
      namespaces: [
        ...['pid', 'mount', 'uts', 'ipc', 'network', 'cgroup'].map((type) => ({ type })),
        { type: 'user', path: userNamespaceFile },
      ],
      uidMappings: ids,
      gidMappings: ids,
      cgroupsPath: plan.cgroupPath,
      resources: plan.resources,
      seccomp: seccomp.seccomp,
      maskedPaths: [],
      readonlyPaths,
      ...(plan.selinux && { mountLabel: plan.selinux.files }),
      sysctl: {
        // Root may not send raw packets, so ping needs this setting. Any user may listen on port 80.
        'net.ipv4.ping_group_range': '0 65535',
        'net.ipv4.ip_unprivileged_port_start': '0',
        ...(existsSync('/proc/sys/net/ipv6') ? { 'net.ipv6.conf.default.disable_ipv6': '1' } : {}),
      },
    },
  };
}

/**
 * The agent's process in that container, in the format of the runtime's `exec`.
 * @param prepares the agent loads everything before it reads its boot document, for a member of the pool
 */
export function agentProcess(prepares: boolean, selinux: SelinuxContexts | null): object {
  const env = [`AGENT_PORT=${agentPort}`, `AGENT_COMMAND_TAIL=${tailMount}/command.tail`];
  return buildProcess(agentWords, prepares ? [...env, 'AGENT_PREPARE=1'] : env, selinux);
}

function buildProcess(args: string[], env: string[], selinux: SelinuxContexts | null): object {
  return {
    terminal: false,
    user: { uid: 0, gid: 0 },
    args,
    env,
    cwd: '/',
    capabilities: { bounding: capabilities, effective: capabilities, permitted: capabilities },
    rlimits: resourceLimits(),
    // sudo and similar programs can only become the sandbox's own root.
    noNewPrivileges: false,
    ...(selinux && { selinuxLabel: selinux.process }),
  };
}

const tmpfs = (destination: string, options: string[]) => ({ destination, type: 'tmpfs', source: 'tmpfs', options });

/** The limits never exceed the host worker's own hard limits, because root may lack the privilege to raise those. */
function resourceLimits(): { type: string; soft: number; hard: number }[] {
  const line = /^Max open files\s+\S+\s+(\S+)/m.exec(readFileSync('/proc/self/limits', 'latin1'));
  const hard = line?.[1] === 'unlimited' ? 1_048_576 : Math.min(Number(line?.[1] ?? 4096), 1_048_576);
  return [
    { type: 'RLIMIT_NOFILE', soft: Math.min(hard, 65_536), hard },
    { type: 'RLIMIT_CORE', soft: 0, hard: 0 },
  ];
}
