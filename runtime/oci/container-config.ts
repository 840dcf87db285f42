import { existsSync, readFileSync } from 'node:fs';
import type { SandboxConnection } from './network.ts';
import { agentWords, initPath, runtimeMount } from './runtime-folder.ts';
import type { SeccompConfig } from './seccomp.ts';

export interface ContainerPlan {
  hostname: string;
  /** Relative to the root of the hierarchies. */
  cgroupPath: string;
  resources: object;
  connection: SandboxConnection;
  seccomp: SeccompConfig;
}

/** The port of the agent in every sandbox. */
export const agentPort = 49983;
/** Where the sandbox sees the small folder that the host reads when it has ended. */
export const tailMount = '/run/platform';
/** Where the shim mounts the user namespace it has made, in the mount namespace of its own. */
const userNamespaceFile = '/mnt/user';
/** Processes and threads in one sandbox. */
export const processLimit = 1024;
/** Terminals open at once in one sandbox; the kernel has only so many for all. */
export const terminalLimit = 128;

/**
 * What root may do in a sandbox. Not NET_RAW (no forged packets), NET_ADMIN, SYS_ADMIN, MKNOD, SYS_PTRACE (a user may
 * debug its own), nor anything that reaches beyond the user namespace.
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

/** Block devices are among them because they tell of other sandboxes: names of their disks, sizes, what they read. */
const maskedPaths = [
  '/proc/acpi',
  '/proc/asound',
  '/proc/cmdline',
  '/proc/diskstats',
  '/proc/interrupts',
  '/proc/kallsyms',
  '/proc/kcore',
  '/proc/keys',
  '/proc/latency_stats',
  '/proc/modules',
  '/proc/partitions',
  '/proc/sched_debug',
  '/proc/scsi',
  '/proc/timer_list',
  '/proc/timer_stats',
  '/sys/block',
  '/sys/class/block',
  '/sys/dev/block',
  '/sys/devices/virtual/block',
  '/sys/devices/virtual/powercap',
  '/sys/firmware',
  '/sys/fs/bpf',
  '/sys/fs/ext4',
  '/sys/kernel',
];
const readonlyPaths = ['/proc/bus', '/proc/fs', '/proc/irq', '/proc/pressure', '/proc/sys', '/proc/sysrq-trigger'];

/**
 * The container's configuration (OCI runtime specification) over what the shim prepares in the bundle: `root`, `tail`,
 * `platform`. It holds no secret.
 */
export function containerConfig(plan: ContainerPlan): object {
  const { connection, seccomp } = plan;
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
    process: {
      terminal: false,
      user: { uid: 0, gid: 0 },
      args: [initPath, '--', ...agentWords],
      env: [`AGENT_PORT=${agentPort}`, `AGENT_COMMAND_TAIL=${tailMount}/command.tail`],
      cwd: '/',
      capabilities: { bounding: capabilities, effective: capabilities, permitted: capabilities },
      rlimits: resourceLimits(),
      // sudo and its kin gain nothing here but the sandbox's own root.
      noNewPrivileges: false,
    },
    mounts: [
      { destination: '/proc', type: 'proc', source: 'proc', options: ['nosuid', 'noexec', 'nodev'] },
      tmpfs('/dev', ['nosuid', 'noexec', 'strictatime', 'mode=755', 'size=64k']),
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
      maskedPaths,
      readonlyPaths,
      sysctl: {
        // Root may not send raw packets, so that ping works by this, and servers may take port 80 as any user.
        'net.ipv4.ping_group_range': '0 65535',
        'net.ipv4.ip_unprivileged_port_start': '0',
        ...(existsSync('/proc/sys/net/ipv6') ? { 'net.ipv6.conf.default.disable_ipv6': '1' } : {}),
      },
    },
  };
}

const tmpfs = (destination: string, options: string[]) => ({ destination, type: 'tmpfs', source: 'tmpfs', options });

/** Never above the host worker's own hard limits: raising those takes a privilege that root may lack. */
function resourceLimits(): { type: string; soft: number; hard: number }[] {
  const line = /^Max open files\s+\S+\s+(\S+)/m.exec(readFileSync('/proc/self/limits', 'latin1'));
  const hard = line?.[1] === 'unlimited' ? 1_048_576 : Math.min(Number(line?.[1] ?? 4096), 1_048_576);
  return [
    { type: 'RLIMIT_NOFILE', soft: Math.min(hard, 65_536), hard },
    { type: 'RLIMIT_CORE', soft: 0, hard: 0 },
  ];
}
