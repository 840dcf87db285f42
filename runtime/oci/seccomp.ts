import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { copyFile, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { renameDurably } from '../../platform/config/durable-file.ts';
import { runCommand } from '../process/command.ts';
import { initWords, runtimeMount } from '../sandbox-agent/runtime-folder.ts';
import type { OciRuntime } from './oci-runtime.ts';

/**
 * The system calls that sandboxes may make, in `seccomp.json`. Calls on the list are allowed. Known unwanted calls
 * return EPERM. New calls return ENOSYS, so that programs fall back as on an older kernel. Sockets must be `AF_UNIX`,
 * `AF_INET`, `AF_INET6` or `AF_NETLINK`. New namespaces and calls of other architectures are refused. The old
 * asynchronous I/O (`io_setup`) is refused, because `fs.aio-max-nr` is shared by the whole machine and programs do not
 * need it. `sched_setattr` is refused, because it would let a process ask for longer processor slices than the shim
 * sets.
 */
const profileFile = path.join(import.meta.dirname, 'seccomp.json');
const architectures: Partial<Record<NodeJS.Architecture, string>> = {
  x64: 'SCMP_ARCH_X86_64',
  arm64: 'SCMP_ARCH_AARCH64',
};

/** The seccomp part of a container's configuration. */
export interface SeccompConfig {
  seccomp: object;
  annotations: Record<string, string>;
}

/**
 * The filter in the form that this runtime loads fastest. runc translates the list for each container. crun accepts a
 * translated program, which saves 18 ms for each container.
 */
export async function seccompConfig(
  cacheDir: string,
  runtime: OciRuntime,
  runtimeFolder: string,
): Promise<SeccompConfig> {
  const text = await readFile(profileFile, 'utf8');
  const architecture = architectures[process.arch];
  if (!architecture) throw new Error(`sandboxes do not run on ${process.arch}`);
  const profile = { ...JSON.parse(text), architectures: [architecture] };
  if (runtime.name === 'runc') return { seccomp: profile, annotations: {} };
  const key = createHash('sha256')
    .update(JSON.stringify([profile, runtime.version]))
    .digest('hex')
    .slice(0, 16);
  const file = path.join(cacheDir, 'seccomp', `${key}.bpf`);
  if (!existsSync(file)) await translate(file, profile, runtime, runtimeFolder);
  const program = await readFile(file);
  // With a crun that does not know the annotation, every call is refused and no sandbox starts.
  return {
    seccomp: { defaultAction: 'SCMP_ACT_ERRNO', architectures: [architecture] },
    annotations: { 'run.oci.seccomp_bpf_data': program.toString('base64') },
  };
}

/** Makes crun prepare a container with the profile, and stores the translated program. */
async function translate(file: string, profile: object, runtime: OciRuntime, runtimeFolder: string): Promise<void> {
  const bundle = await mkdtemp(path.join(os.tmpdir(), 'seccomp-'));
  try {
    for (const target of [runtimeMount, '/dev']) await mkdir(path.join(bundle, 'root', target), { recursive: true });
    const config = {
      ociVersion: '1.0.2',
      root: { path: 'root' },
      process: { user: { uid: 0, gid: 0 }, args: initWords, cwd: '/', env: ['PATH=/bin'] },
      mounts: [{ destination: runtimeMount, type: 'bind', source: runtimeFolder, options: ['bind', 'ro'] }],
      linux: {
        namespaces: ['pid', 'mount', 'network', 'ipc', 'uts'].map((type) => ({ type })),
        // Of its own, because `crun delete` ends all processes of the group, and several hosts may start at once.
        cgroupsPath: `/sandboxes-${path.basename(bundle)}`,
        seccomp: profile,
      },
    };
    await writeFile(path.join(bundle, 'config.json'), JSON.stringify(config));
    const state = path.join(bundle, 'state');
    const crun = `${runtime.path} --root '${state}'`;
    const script = `${runtime.hide ? `mount -t tmpfs none '${runtime.hide}' && ` : ''}{
  ${crun} create --bundle '${bundle}' seccomp </dev/null >/dev/null && cp '${state}/seccomp/seccomp.bpf' '${bundle}/bpf'
  status=$?; ${crun} delete --force seccomp; exit $status; }`;
    await runCommand('unshare', ['--mount', 'sh', '-c', script]);
    await mkdir(path.dirname(file), { recursive: true });
    const draft = `${file}.${path.basename(bundle)}`;
    await copyFile(path.join(bundle, 'bpf'), draft);
    await renameDurably(draft, file);
  } finally {
    await rm(bundle, { recursive: true, force: true });
  }
}
