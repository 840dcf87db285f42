import { spawn } from 'node:child_process';
import { closeSync, existsSync, openSync, readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { createInterface } from 'node:readline';
import type { DiskRates } from '../../domain/billing/plans.ts';
import type { UnpackedImage } from '../images/image-cache.ts';
import { isAlive, signalProcess } from '../process/process-identity.ts';
import { until } from '../process/until.ts';
import { processLimit } from '../process-limit.ts';
import { ensureBlankDisk } from './blank-disk.ts';
import type { Cgroups, Limits } from './cgroups.ts';
import { agentProcess, containerConfig, pathsBoundByShim } from './container-config.ts';
import type { Copy } from './copy.ts';
import { limitableDevice } from './disk-rates.ts';
import { liveShims } from './live-shims.ts';
import { endMounts } from './mounts/sandbox-mounts.ts';
import type { SandboxConnection, SandboxNetwork } from './network.ts';
import type { OciRuntime } from './oci-runtime.ts';
import { ownFileTexts } from './own-files.ts';
import { forgetLastRun, readAgent, readPids } from './sandbox-records.ts';
import type { SeccompConfig } from './seccomp.ts';
import { contextsOf } from './selinux.ts';

/** One execution of a container in a sandbox's folder. */
interface ContainerSpec {
  folder: string;
  /** The name of the container and its cgroup. */
  instance: string;
  hostname: string;
  image: UnpackedImage;
  limits: Limits;
  storageGb: number;
  /** The rates at which it may use its disk. Undefined: no limit. */
  diskRates?: DiskRates;
  connection: SandboxConnection;
  /**
   * For a member of the pool: before the agent gets its boot document, it does all work that does not need the
   * document.
   */
  prepares?: boolean;
  onStep?: (step: LaunchStep) => void;
  signal?: AbortSignal;
}

const anyRates: DiskRates = {
  readMbPerSecond: 1000,
  writeMbPerSecond: 1000,
  readsPerSecond: 1e5,
  writesPerSecond: 1e5,
};
const endTimeoutSeconds = 10;
const unmountTimeoutSeconds = 5;
/**
 * If the host runs out of memory, the kernel kills sandboxes before the platform's processes. The agent's score leaves
 * space for higher scores of its children.
 */
const sandboxOomScore = 300;
const sysResourceCapability = 24n;

/** Starts and ends containers. It knows nothing of sandboxes and which of them should run. */
export class ContainerRunner {
  readonly #copy: Copy;
  readonly #cgroups: Cgroups;
  readonly #network: SandboxNetwork;
  readonly #runtime: OciRuntime;
  readonly #runtimeFolder: string;
  readonly #seccomp: SeccompConfig;
  readonly #hasSelinux: boolean;

  constructor(parts: {
    copy: Copy;
    cgroups: Cgroups;
    network: SandboxNetwork;
    runtime: OciRuntime;
    runtimeFolder: string;
    seccomp: SeccompConfig;
    /** Sandboxes get SELinux contexts. */
    hasSelinux: boolean;
  }) {
    this.#copy = parts.copy;
    this.#cgroups = parts.cgroups;
    this.#network = parts.network;
    this.#runtime = parts.runtime;
    this.#runtimeFolder = parts.runtimeFolder;
    this.#seccomp = parts.seccomp;
    this.#hasSelinux = parts.hasSelinux;
  }

  /**
   * Starts a container on the folder's disk, or on a blank one. Its agent waits for the boot document from `Boot`.
   * @throws {DriverError} after which no process of the container runs
   */
  async start(spec: ContainerSpec): Promise<Boot> {
    const { folder, instance, connection } = spec;
    // A member of the pool may use all processors until it is claimed.
    const processors = spec.prepares
      ? this.#cgroups.pins.all()
      : this.#cgroups.pins.choose(instance, spec.limits.cpuCount);
    const limits = { ...spec.limits, processors };
    const own = ownFileTexts({ memoryMb: limits.memoryMb, processors });
    const [blank] = await Promise.all([ensureBlankDisk(this.#copy.folder, spec.storageGb), forgetLastRun(folder)]);
    const selinux = this.#hasSelinux ? contextsOf(connection.number) : null;
    const config = containerConfig({
      runtime: this.#runtime.name,
      hostname: spec.hostname,
      cgroupPath: `/${this.#copy.cgroup}/${instance}`,
      resources: this.#cgroups.resources(limits, processLimit),
      connection,
      seccomp: this.#seccomp,
      selinux,
    });
    await writeFile(path.join(folder, 'config.json'), JSON.stringify(config), { mode: 0o600 });
    await writeFile(path.join(folder, 'agent.json'), JSON.stringify(agentProcess(spec.prepares ?? false, selinux)), {
      mode: 0o600,
    });
    const files = Object.entries(this.#network.files(spec.hostname, connection.address));
    const boot = await launch({
      folder,
      onStep: spec.onStep,
      signal: spec.signal,
      args: {
        arch: process.arch,
        id: instance,
        runtime: this.#runtime.path,
        hide: this.#runtime.hide ?? '',
        image: spec.image.rootfs,
        platform: this.#runtimeFolder,
        blank,
        uidBase: connection.uidBase,
        filesContext: selinux?.files ?? '',
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
        thawFile: this.#cgroups.freezer.stateFile(instance),
        thawText: this.#cgroups.freezer.thawedText,
        limitsRates: this.#cgroups.rates.arePossible ? 1 : 0,
        rateFiles: this.#cgroups.rates.listFiles(instance).join(':'),
        noRates: this.#cgroups.rates.noRates,
        cgroups: this.#cgroups.listFolders(instance).join(':'),
        oomScore: Math.max(sandboxOomScore, Number(readFileSync('/proc/self/oom_score_adj', 'latin1'))),
        ...this.#shimGroups(),
        ...Object.fromEntries(files.map(([name, text]) => [`file:${name}`, text])),
        ...Object.fromEntries(Object.entries(own).map(([name, text]) => [`own:${name}`, text])),
      },
    });
    const { pid } = readPids(folder)!.shim;
    // The first limit of a device takes up to 50 ms, for which a claim must not wait.
    await this.limitDisk(instance, pid, spec.prepares ? anyRates : spec.diskRates);
    if (spec.prepares) await this.#cgroups.rates.lift(instance);
    // So far only the agent runs, and it waits for its document.
    return boot;
  }

  /** Limits the rates at which a running container uses its disk. The device is known only while it runs. */
  async limitDisk(instance: string, shimPid: number, rates: DiskRates | undefined): Promise<void> {
    if (!rates) return;
    const device = limitableDevice(`/proc/${shimPid}/root/mnt/disk`);
    if (device) await this.#cgroups.rates.set(instance, device, rates);
  }

  /** The groups that the shim joins, and the hierarchies that it then hides from the runtime. */
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

  /** Whether the container of a folder runs without its agent, so that the shim can restart the agent. */
  isAgentGone(folder: string): boolean {
    const agent = readAgent(folder);
    return !(agent && isAlive(agent)) && existsSync(path.join(folder, 'agent.sock')) && this.isRunning(folder);
  }

  /**
   * Ends the container of a folder and removes its resources outside the folder. Works in every state.
   * @throws {Error} when the kernel does not release them
   */
  async end(folder: string, instance: string, address: string): Promise<void> {
    const pids = readPids(folder);
    if (pids && signalProcess(pids.shim, 'SIGTERM')) {
      // The shim cannot end processes behind a closed fence.
      if (this.#cgroups.freezer.isFenced) await this.#cgroups.kill(instance);
      const gone = () => !isAlive(pids.shim);
      // Data that the sandbox has written to its buckets may still be uploaded for this long, and processes that wait
      // for the upload cannot end earlier.
      await until(gone, { timeoutSeconds: unmountTimeoutSeconds, everyMs: 3 });
      await endMounts(folder);
      if (!(await until(gone, { timeoutSeconds: endTimeoutSeconds, everyMs: 3 }))) signalProcess(pids.shim, 'SIGKILL');
    }
    await endMounts(folder);
    // Normally the shim does this, but the shim may have been killed.
    await this.#cgroups.destroy(instance);
    await this.#network.release(address, instance);
  }

  /**
   * Ends the processes and mounts of a sandbox that the kernel shows, without using its files: its folder may have been
   * removed by hand, or its record may be lost. After a regular end it finds nothing.
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
 * Whether a sandbox's own id can own its user namespace. runc sets limits from outside the namespace. If root lacks
 * CAP_SYS_RESOURCE, this only works when root is the owner, and then the kernel's per-user limits are shared by all
 * sandboxes.
 */
function ownsNamespaces(runtime: OciRuntime): boolean {
  const effective = /^CapEff:\s+([0-9a-f]+)/m.exec(readFileSync('/proc/self/status', 'latin1'))?.[1] ?? '0';
  return runtime.name === 'crun' || ((BigInt(`0x${effective}`) >> sysResourceCapability) & 1n) === 1n;
}

const shimFile = path.join(import.meta.dirname, 'shim.pl');

/** A shim failed. The message is `<step> <reason>`. */
export class LaunchError extends Error {
  override name = 'LaunchError';
}

/** Steps that the shim reports, in their order. */
type LaunchStep = 'disk' | 'root' | 'container' | 'network' | 'start';

interface LaunchOptions {
  /** The sandbox's folder. */
  folder: string;
  /** `key=value` for the shim. Visible in the machine's process list. */
  args: Record<string, string | number>;
  onStep?: (step: LaunchStep) => void;
  signal?: AbortSignal;
}

/** Gives the agent its secret boot document, with which it starts. */
export type Boot = (document: object) => void;

/**
 * Starts a sandbox under its own shim, which outlives this process. Its agent waits for the boot document.
 * @returns the boot function, when the container runs and has its network
 * @throws {LaunchError} with the shim's reason, after which no process of the sandbox runs
 */
async function launch(options: LaunchOptions): Promise<Boot> {
  const log = openSync(path.join(options.folder, 'shim.log'), 'a', 0o600);
  const words = Object.entries(options.args).map(([key, value]) => `${key}=${value}`);
  const shim = spawn('perl', [shimFile, ...words], {
    cwd: options.folder,
    env: { PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin', LC_ALL: 'C' },
    detached: true,
    stdio: ['pipe', 'pipe', log],
  });
  closeSync(log);
  shim.unref();
  const stdin = shim.stdin!;
  // If the agent ends before it has read the document, the shim reports that.
  stdin.on('error', () => {});
  const abort = () => shim.kill('SIGTERM');
  options.signal?.addEventListener('abort', abort, { once: true });
  if (options.signal?.aborted) abort();
  let failure = 'the shim ended without a word';
  try {
    const started = await new Promise<boolean>((resolve, reject) => {
      let done = false;
      shim.once('error', reject);
      shim.once('exit', () => resolve(done));
      createInterface({ input: shim.stdout! }).on('line', (line) => {
        if (line.startsWith('error ')) failure = line.slice('error '.length);
        else {
          options.onStep?.(line as LaunchStep);
          if (line === 'start') {
            done = true;
            resolve(true);
          }
        }
      });
    });
    if (started) return (document) => stdin.end(JSON.stringify(document));
  } finally {
    options.signal?.removeEventListener('abort', abort);
  }
  stdin.destroy();
  throw new LaunchError(failure);
}
