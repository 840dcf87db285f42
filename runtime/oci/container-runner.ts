import { existsSync, readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import type { UnpackedImage } from '../images/unpacked-image.ts';
import { isAlive, signalProcess } from '../process/process-identity.ts';
import { until } from '../process/until.ts';
import { ensureBlankDisk } from './blank-disk.ts';
import type { Cgroups, Limits } from './cgroups.ts';
import { agentProcess, containerConfig, pathsBoundByShim, processLimit } from './container-config.ts';
import type { Copy } from './copy.ts';
import { type Boot, type LaunchStep, launch } from './launch.ts';
import { liveShims } from './live-shims.ts';
import { endMounts } from './mounts/sandbox-mounts.ts';
import type { SandboxConnection, SandboxNetwork } from './network.ts';
import type { OciRuntime } from './oci-runtime.ts';
import { ownFileTexts } from './own-files.ts';
import { forgetLastRun, readAgent, readPids } from './sandbox-folder.ts';
import type { SeccompConfig } from './seccomp.ts';

/** One run of a container, in a sandbox's folder. */
export interface ContainerRun {
  folder: string;
  /** Names the container and its cgroup. */
  instance: string;
  hostname: string;
  image: UnpackedImage;
  limits: Limits;
  storageGb: number;
  connection: SandboxConnection;
  /** For a member of the pool: the agent does all its work that does not need the boot document before it gets it. */
  prepares?: boolean;
  onStep?: (step: LaunchStep) => void;
  signal?: AbortSignal;
}

const endTimeoutSeconds = 10;
const mountPatienceSeconds = 5;
/**
 * When the host runs out of memory, sandboxes are killed before the platform's processes. The agent leaves room for its
 * children.
 */
const sandboxOomScore = 300;
const sysResourceCapability = 24n;

/** Starts and ends containers. It does not know what a sandbox is, or which ones should run. */
export class ContainerRunner {
  readonly #copy: Copy;
  readonly #cgroups: Cgroups;
  readonly #network: SandboxNetwork;
  readonly #runtime: OciRuntime;
  readonly #runtimeFolder: string;
  readonly #seccomp: SeccompConfig;

  constructor(parts: {
    copy: Copy;
    cgroups: Cgroups;
    network: SandboxNetwork;
    runtime: OciRuntime;
    runtimeFolder: string;
    seccomp: SeccompConfig;
  }) {
    this.#copy = parts.copy;
    this.#cgroups = parts.cgroups;
    this.#network = parts.network;
    this.#runtime = parts.runtime;
    this.#runtimeFolder = parts.runtimeFolder;
    this.#seccomp = parts.seccomp;
  }

  /**
   * Starts a container on the folder's disk, or on a blank one. Its agent waits for the boot document from `Boot`.
   * @throws {DriverError} with nothing left running
   */
  async start(run: ContainerRun): Promise<Boot> {
    const { folder, instance, connection } = run;
    // A member of the pool has everything until it is claimed.
    const processors = run.prepares ? this.#cgroups.processors() : this.#cgroups.choose(instance, run.limits.cpuCount);
    const limits = { ...run.limits, processors };
    const own = ownFileTexts({ memoryMb: limits.memoryMb, processors });
    const [blank] = await Promise.all([ensureBlankDisk(this.#copy.folder, run.storageGb), forgetLastRun(folder)]);
    const config = containerConfig({
      runtime: this.#runtime.name,
      hostname: run.hostname,
      cgroupPath: `/${this.#copy.cgroup}/${instance}`,
      resources: this.#cgroups.resources(limits, processLimit),
      connection,
      seccomp: this.#seccomp,
    });
    await writeFile(path.join(folder, 'config.json'), JSON.stringify(config), { mode: 0o600 });
    await writeFile(path.join(folder, 'agent.json'), JSON.stringify(agentProcess(run.prepares ?? false)), {
      mode: 0o600,
    });
    const files = Object.entries(this.#network.files(run.hostname, connection.address));
    return launch({
      folder,
      onStep: run.onStep,
      signal: run.signal,
      args: {
        arch: process.arch,
        id: instance,
        runtime: this.#runtime.path,
        hide: this.#runtime.hide ?? '',
        image: run.image.rootfs,
        platform: this.#runtimeFolder,
        blank,
        uidBase: connection.uidBase,
        userOwner: ownsNamespaces(this.#runtime) ? connection.uidBase : 0,
        interface: connection.interface,
        address: connection.address,
        gateway: connection.gateway,
        mtu: connection.mtu,
        group: connection.group,
        procs: this.#cgroups.processesFile(instance),
        oomFile: this.#cgroups.oomFile(instance),
        bind: pathsBoundByShim(this.#runtime.name)
          .map(({ name, destination }) => `${name}:${destination}`)
          .join(','),
        thawFile: this.#cgroups.freezerFile(instance),
        thawText: this.#cgroups.thawedText,
        cgroups: this.#cgroups.foldersOf(instance).join(':'),
        oomScore: Math.max(sandboxOomScore, Number(readFileSync('/proc/self/oom_score_adj', 'latin1'))),
        ...this.#shimGroups(),
        ...Object.fromEntries(files.map(([name, text]) => [`file:${name}`, text])),
        ...Object.fromEntries(Object.entries(own).map(([name, text]) => [`own:${name}`, text])),
      },
    });
  }

  /** The shim hides from the runtime the hierarchies that it must not see, and joins their groups before. */
  #shimGroups(): { shimCgroups: string; hiddenCgroups: string } {
    const { hide } = this.#runtime;
    const isHidden = (folder: string) => hide !== null && folder.startsWith(`${hide}/`);
    const folders = this.#cgroups.shimFolders();
    return {
      shimCgroups: folders.filter((folder) => !isHidden(folder)).join(':'),
      hiddenCgroups: folders.filter(isHidden).join(':'),
    };
  }

  /** Whether the container of a folder runs or is being started. */
  isRunning(folder: string): boolean {
    const pids = readPids(folder);
    return pids !== null && isAlive(pids.shim);
  }

  /** Whether the container of a folder runs without its agent, so that the shim can start the agent again. */
  isAgentGone(folder: string): boolean {
    const agent = readAgent(folder);
    return !(agent && isAlive(agent)) && existsSync(path.join(folder, 'agent.sock')) && this.isRunning(folder);
  }

  /**
   * Ends the container of a folder and removes what it held outside of the folder. Works in every state.
   * @throws {Error} when the kernel does not free it
   */
  async end(folder: string, instance: string, address: string): Promise<void> {
    const pids = readPids(folder);
    if (pids && signalProcess(pids.shim, 'SIGTERM')) {
      // The shim cannot end processes behind a closed fence.
      if (this.#cgroups.isFenced) await this.#cgroups.kill(instance);
      const gone = () => !isAlive(pids.shim);
      // How long data that the sandbox has written to its buckets may take to arrive; processes that wait for it cannot
      // end before.
      await until(gone, { timeoutSeconds: mountPatienceSeconds, everyMs: 3 });
      await endMounts(folder);
      if (!(await until(gone, { timeoutSeconds: endTimeoutSeconds, everyMs: 3 }))) signalProcess(pids.shim, 'SIGKILL');
    }
    await endMounts(folder);
    // The shim does this itself, unless it was killed.
    await this.#cgroups.destroy(instance);
    await this.#network.release(address, instance);
  }

  /**
   * Ends what the kernel shows of a sandbox, whatever its files say: its folder may have been removed by hand, its
   * record lost. After a regular end nothing is left.
   */
  async endStrays(name: string, folder: string): Promise<void> {
    const strays = liveShims(this.#copy).filter((shim) => shim.folder === folder);
    for (const { process, instance, address } of strays) {
      await this.#cgroups.kill(instance);
      signalProcess(process, 'SIGTERM');
      const gone = () => !isAlive(process);
      if (!(await until(gone, { timeoutSeconds: endTimeoutSeconds, everyMs: 3 }))) signalProcess(process, 'SIGKILL');
      await this.#cgroups.destroy(instance);
      await this.#network.release(address, instance);
    }
    await this.#cgroups.destroy(name);
  }
}

/**
 * Whether a sandbox's own id can own its user namespace. runc sets limits from without, for which a root that lacks
 * CAP_SYS_RESOURCE must be the owner; what the kernel counts by user is then shared with every other sandbox.
 */
function ownsNamespaces(runtime: OciRuntime): boolean {
  const effective = /^CapEff:\s+([0-9a-f]+)/m.exec(readFileSync('/proc/self/status', 'latin1'))?.[1] ?? '0';
  return runtime.name === 'crun' || ((BigInt(`0x${effective}`) >> sysResourceCapability) & 1n) === 1n;
}
