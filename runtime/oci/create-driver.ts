import type { HostDriver } from '../host-driver.ts';
import { s3fsRootIn } from '../mounts/s3fs-root.ts';
import { withAuthorities } from '../sandbox-agent/authorities.ts';
import { ensureRuntimeFolder } from '../sandbox-agent/runtime-folder.ts';
import { Cgroups } from './cgroups.ts';
import { ContainerRunner } from './container-runner.ts';
import { openCopy } from './copy.ts';
import { LocalDriver } from './driver.ts';
import { raiseKernelLimits } from './kernel-limits.ts';
import { SandboxMounts } from './mounts/sandbox-mounts.ts';
import { SandboxNetwork } from './network.ts';
import { findRuntime } from './oci-runtime.ts';
import type { OciDriverOptions } from './options.ts';
import { reportMissingControls, requirePrerequisites } from './prerequisites.ts';
import { seccompConfig } from './seccomp.ts';
import { findSelinux } from './selinux.ts';

/**
 * Opens this machine as a host: checks the prerequisites, sets up the network, ends half-made sandboxes of an earlier
 * process, and takes over the running ones.
 * @throws {Error} with the package to install or the setting to change when a prerequisite is missing
 */
export async function createOciDriver(options: OciDriverOptions): Promise<HostDriver> {
  requirePrerequisites();
  const copy = await openCopy(options.dataDir, options.logger);
  const cgroups = new Cgroups(copy.cgroup);
  const [runtime, runtimeFolder] = await Promise.all([
    findRuntime(options.runtime, cgroups),
    ensureRuntimeFolder(options.cacheDir, options.agentDir).then((folder) =>
      options.sandboxCa ? withAuthorities(folder, options.sandboxCa) : folder,
    ),
    cgroups.prepare(),
    raiseKernelLimits(options.logger),
  ]);
  reportMissingControls(cgroups, options.logger);
  const seccomp = await seccompConfig(options.cacheDir, runtime, runtimeFolder);
  const network = await SandboxNetwork.open(copy, options);
  const selinux = findSelinux();
  if (selinux.missing !== null) {
    options.logger.warn(
      { missing: selinux.missing },
      'SELinux does not confine sandboxes: its policy lacks rules (docs/machines.md)',
    );
  }
  const runner = new ContainerRunner({
    ...{ copy, cgroups, network, runtime, runtimeFolder, seccomp },
    hasSelinux: selinux.isUsed,
  });
  const mounts = new SandboxMounts({
    gid: copy.storageGid,
    runtime,
    s3fsRoot: s3fsRootIn(options.cacheDir),
    seccomp,
    cgroups,
    egress: () => ({
      allowedRanges: options.outboundRanges ?? [],
      closedRanges: [network.subnet],
      ownServices: network.ownServices,
    }),
    timeoutSeconds: options.mountTimeoutSeconds ?? 20,
  });
  const driver = new LocalDriver({ copy, cgroups, network, runner, mounts, options });
  await driver.takeOver();
  return driver;
}
