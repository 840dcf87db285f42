import type { StorageTarget } from '../../../domain/sandboxes/storage-endpoint.ts';
import { s3fsOptions } from '../../mounts/s3fs-options.ts';
import { presentMaskedPaths, readonlyPaths } from '../container-config.ts';
import type { SeccompConfig } from '../seccomp.ts';

/** The part of the sandbox's memory that one s3fs, its relay and their buffers may use. */
export const mountMemoryBytes = 256 * 1024 * 1024;
/** The maximum number of processes and threads of one s3fs and its relay. */
export const mountProcessLimit = 256;

const [prctl, setParentDeathSignal, sigkill] = [{ x64: 157, arm64: 167 }, 1, 9];
const tmpfs = (destination: string, options: string[]) => ({ destination, type: 'tmpfs', source: 'tmpfs', options });
const bind = (source: string, destination: string, access: 'ro' | 'rw') => ({
  destination,
  type: 'bind',
  source,
  options: ['rbind', access, 'nosuid', 'nodev', 'noexec'],
});

/**
 * The container of one s3fs (OCI runtime specification) with the folders that `isolated-s3fs.pl` prepares below `/mnt`.
 * Its only user is the sandbox's root on the host, without any capability. Its network namespace only leads to the
 * relay.
 */
export function s3fsContainer(plan: {
  target: StorageTarget;
  uidBase: number;
  cgroupPath: string;
  seccomp: SeccompConfig;
}): object {
  const ids = [{ containerID: 0, hostID: plan.uidBase, size: 1 }];
  const words = [
    `${plan.target.bucket}:${plan.target.path}`,
    '/bucket',
    '-f',
    // With this level, errors quote the server's reply, which identifies an S3 server.
    ...['auto_unmount', 'tmpdir=/buffers', 'dbglevel=err', ...s3fsOptions(plan.target)].flatMap((option) => [
      '-o',
      option,
    ]),
  ];
  const number = prctl[process.arch as keyof typeof prctl];
  // s3fs ends when its holder ends for any reason.
  const start = `syscall ${number}, ${setParentDeathSignal}, ${sigkill}, 0, 0, 0;
    open my $own, '<', '/etc/s3fs-options' or die "options: $!"; chomp(my @own = <$own>);
    exec 's3fs', @ARGV, @own; die "s3fs: $!"`;
  return {
    ociVersion: '1.0.2',
    root: { path: 'root', readonly: true },
    hostname: 's3fs',
    annotations: plan.seccomp.annotations,
    process: {
      terminal: false,
      user: { uid: 0, gid: 0, umask: 0 },
      args: ['/usr/bin/perl', '-e', start, ...words],
      env: ['PATH=/usr/bin', 'HOME=/root', 'LC_ALL=C', 'PLATFORM_FUSE_FD=3', `PLATFORM_ARCH=${process.arch}`],
      cwd: '/',
      capabilities: { bounding: [], effective: [], permitted: [], inheritable: [], ambient: [] },
      rlimits: [
        { type: 'RLIMIT_CORE', soft: 0, hard: 0 },
        { type: 'RLIMIT_NOFILE', soft: 4096, hard: 4096 },
      ],
      noNewPrivileges: true,
    },
    mounts: [
      { destination: '/proc', type: 'proc', source: 'proc', options: ['nosuid', 'noexec', 'nodev'] },
      tmpfs('/dev', ['nosuid', 'noexec', 'strictatime', 'mode=755', 'nr_blocks=16']),
      tmpfs('/tmp', ['nosuid', 'noexec', 'nodev', 'mode=1777', 'nr_blocks=16']),
      bind('hosts', '/etc/hosts', 'ro'),
      bind('certificates', '/etc/ssl/certs', 'ro'),
      bind('home', '/root', 'ro'),
      bind('disk/storage', '/buffers', 'rw'),
    ],
    linux: {
      namespaces: [
        ...['pid', 'mount', 'uts', 'ipc', 'cgroup', 'user'].map((type) => ({ type })),
        { type: 'network', path: '/mnt/network' },
      ],
      uidMappings: ids,
      gidMappings: ids,
      cgroupsPath: plan.cgroupPath,
      resources: {
        memory: { limit: mountMemoryBytes },
        pids: { limit: mountProcessLimit },
        devices: [{ allow: false, access: 'rwm' }],
      },
      seccomp: plan.seccomp.seccomp,
      maskedPaths: presentMaskedPaths().filter((each) => each.startsWith('/proc/')),
      readonlyPaths,
    },
  };
}
