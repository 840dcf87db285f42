import { randomBytes } from 'node:crypto';
import { existsSync, readdirSync, statfsSync, statSync } from 'node:fs';
import { rename, rm } from 'node:fs/promises';
import path from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { freeMemoryMb, memoryReserveMb } from '../../domain/hosts/room.ts';
import type { SandboxId } from '../../domain/ids.ts';
import type { MountSlot } from '../../domain/sandboxes/object-storage.ts';
import type { UdpMapping } from '../../domain/sandboxes/ports.ts';
import { readRegistryImage } from '../../domain/templates/image.ts';
import { AgentRestarts } from '../agent-restarts.ts';
import { CancellableWork } from '../cancellable-work.ts';
import { type DiskRoom, hasRoomToAdmit, readDiskRoom } from '../disk/disk-room.ts';
import { isOutOfSpace } from '../disk/out-of-space.ts';
import {
  type CreateOptions,
  DriverError,
  type PauseResult,
  type SandboxExit,
  type SandboxInspection,
  type SandboxPlace,
  type SandboxSpec,
  type SandboxUsage,
} from '../driver.ts';
import type { DiskUse, HostDriver, LinkedSandbox, PortRange } from '../host-driver.ts';
import { type BaseImageOptions, ensureBaseImage } from '../images/base-image.ts';
import { BuiltinImages } from '../images/builtin-images.ts';
import { ImageCache } from '../images/image-cache.ts';
import { defaultImageLimits, ensureImage } from '../images/image-store.ts';
import { noteImageUser } from '../images/image-users.ts';
import { makeImageOnce } from '../images/make-once.ts';
import { RegistryPull } from '../images/registry-pull.ts';
import type { UnpackedImage } from '../images/unpacked-image.ts';
import { MachineLoad } from '../machine-load.ts';
import { s3fsRootIn } from '../mounts/s3fs-root.ts';
import { PhaseReports } from '../phase-reports.ts';
import { KeyedLock } from '../process/keyed-lock.ts';
import { agentPort } from '../sandbox-agent/agent-client.ts';
import { ensureRuntimeFolder } from '../sandbox-agent/runtime-folder.ts';
import { Stopwatch } from '../stopwatch.ts';
import { requireHostDisk } from './blank-disk.ts';
import { Cgroups } from './cgroups.ts';
import { ContainerRunner } from './container-runner.ts';
import { type Copy, openCopy } from './copy.ts';
import { ExitWatch } from './exit-watch.ts';
import { imageFailure, startFailure } from './failures.ts';
import { Fence } from './fence.ts';
import { LocalImageBuilds } from './image-builds.ts';
import { raiseKernelLimits } from './kernel-limits.ts';
import { liveShims } from './live-shims.ts';
import { SandboxMounts } from './mounts/sandbox-mounts.ts';
import { type SandboxConnection, SandboxNetwork } from './network.ts';
import { findRuntime } from './oci-runtime.ts';
import type { OciDriverOptions } from './options.ts';
import { OwnFigures } from './own-figures.ts';
import { reportMissingControls, requirePrerequisites } from './prerequisites.ts';
import { type ReconcileReport, removeOrphans } from './reconcile.ts';
import { hasDisk, readExit, readPids, type SandboxRecord } from './sandbox-folder.ts';
import { hostRoutes, isLinkWhole, repairLink } from './sandbox-link.ts';
import { SandboxRecords } from './sandbox-records.ts';
import { SandboxStarter, type StartTimeouts, type Work } from './sandbox-starter.ts';
import { seccompConfig } from './seccomp.ts';
import { UsageMeter } from './usage-meter.ts';
import { WarmPools } from './warm-pools.ts';

/** The number of links that are checked before the event loop gets a turn, which takes a few milliseconds. */
const looksAtOnce = 50;
const baseImageName = 'builtin:base';
/** The time limit to find the image, which is already on the disk, and to pass on the boot document. */
const agentRestartTimeoutMs = 10_000;

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
    ensureRuntimeFolder(options.cacheDir, options.agentDir),
    cgroups.prepare(),
    raiseKernelLimits(options.logger),
  ]);
  reportMissingControls(cgroups, options.logger);
  const seccomp = await seccompConfig(options.cacheDir, runtime, runtimeFolder);
  const network = await SandboxNetwork.open(copy, options);
  const runner = new ContainerRunner({ copy, cgroups, network, runtime, runtimeFolder, seccomp });
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

class LocalDriver implements HostDriver {
  readonly subnet: string;
  readonly gateway: string;
  readonly hostAddress: string;
  readonly udpRange: PortRange | null;
  readonly fence: Fence;
  readonly builds: LocalImageBuilds;
  readonly #copy: Copy;
  readonly #cgroups: Cgroups;
  readonly #network: SandboxNetwork;
  readonly #runner: ContainerRunner;
  readonly #mounts: SandboxMounts;
  readonly #options: OciDriverOptions;
  readonly #images: ImageCache;
  readonly builtinImages: BuiltinImages;
  readonly #registry: RegistryPull | null;
  readonly #timeouts: StartTimeouts;
  readonly #lock = new KeyedLock();
  readonly #records: SandboxRecords;
  /** Running creates, resumes and pauses of each sandbox, and those that wait for its lock. `stop` aborts them. */
  readonly #work = new CancellableWork(this.#lock);
  readonly #starter: SandboxStarter;
  readonly #exits: ExitWatch;
  readonly #meter: UsageMeter;
  readonly #figures: OwnFigures;
  readonly #agentRestarts: AgentRestarts;
  /** Leftovers without a sandbox that `takeOver` has removed. */
  #orphans: Omit<ReconcileReport, 'sandboxes'> = { poolMembers: [], containers: [], interfaces: [] };
  readonly load = new MachineLoad();
  #pools: WarmPools | undefined;

  constructor(parts: {
    copy: Copy;
    cgroups: Cgroups;
    network: SandboxNetwork;
    runner: ContainerRunner;
    mounts: SandboxMounts;
    options: OciDriverOptions;
  }) {
    this.#copy = parts.copy;
    this.#cgroups = parts.cgroups;
    this.#network = parts.network;
    this.#runner = parts.runner;
    this.#mounts = parts.mounts;
    this.#options = parts.options;
    const { registry, imageCacheBytes: budgetBytes = null, cacheDir, logger } = parts.options;
    this.#images = new ImageCache({ cacheDir, budgetBytes, logger });
    this.builtinImages = BuiltinImages.of(this.#baseImage(), parts.options.interpreterRecipes ?? {}, logger);
    this.#registry = registry ? new RegistryPull(registry) : null;
    this.subnet = parts.network.subnet;
    this.gateway = parts.network.gateway;
    this.hostAddress = parts.network.hostAddress;
    this.udpRange = parts.network.udpRange;
    this.fence = new Fence(parts.copy, parts.cgroups);
    const { agentStartTimeoutSeconds = 30, pauseTimeoutSeconds = 10 } = parts.options;
    this.#timeouts = {
      agentStartSeconds: agentStartTimeoutSeconds,
      thawSeconds: Math.min(10, agentStartTimeoutSeconds),
      pauseSeconds: pauseTimeoutSeconds,
    };
    this.#records = new SandboxRecords({ ...parts, logger: parts.options.logger });
    this.#starter = new SandboxStarter({
      ...parts,
      records: this.#records,
      timeouts: this.#timeouts,
      images: this.#images,
      imageOf: (reference, signal) => this.#imageOf(reference, signal),
    });
    this.#meter = new UsageMeter(parts.cgroups);
    this.#figures = new OwnFigures(parts.cgroups, logger);
    this.#agentRestarts = new AgentRestarts(parts.options.logger);
    this.builds = new LocalImageBuilds({
      ...parts,
      folderOf: (sandboxId) => this.#folderOf(sandboxId),
      recordOf: (sandboxId) => this.#presentRecord(sandboxId),
      alone: (sandboxId, signal, work) => this.#work.run(sandboxId, signal, work),
      freeze: (record, signal) => this.#freeze(record, signal),
      imageOf: (reference, signal) => this.#imageOf(reference, signal),
      diskRoom: () => this.diskRoom(),
      availableMemoryBytes: () => this.load.memory().availableMb * 1024 * 1024,
    });
    this.#exits = new ExitWatch({
      lock: this.#lock,
      records: this.#records,
      end: (record) => this.#end(record),
      logger: parts.options.logger,
    });
  }

  /** Repairs and removes the leftovers of an earlier process. */
  async takeOver(): Promise<void> {
    await this.#records.load();
    // Done before any container is ended, because the former address of one sandbox may now belong to another.
    for (const record of this.#records.all()) {
      if (this.#runner.isRunning(this.#folderOf(record.sandboxId))) {
        this.#network.adopt(record.address, record.instance);
      }
    }
    this.#orphans = await removeOrphans({
      copy: this.#copy,
      cgroups: this.#cgroups,
      network: this.#network,
      runner: this.#runner,
      records: this.#records.all(),
      logger: this.#options.logger,
    });
    if (Object.values(this.#orphans).some((found) => found.length > 0)) {
      this.#options.logger.info({ ...this.#orphans }, 'removed leftovers of an earlier process');
    }
    for (const record of this.#records.all()) {
      try {
        await this.#takeOverOne(record);
      } catch (error) {
        this.#options.logger.error({ err: error, sandboxId: record.sandboxId }, 'a sandbox could not be taken over');
      }
    }
    // Sandboxes that have run since before the cache recorded the users of images.
    for (const { image, folder } of liveShims(this.#copy)) await noteImageUser(path.dirname(image), folder);
    await this.builds.open();
    this.#figures.start();
    if (this.#options.warmPoolSize === 0) return;
    this.#pools = new WarmPools({
      copy: this.#copy,
      cgroups: this.#cgroups,
      network: this.#network,
      runner: this.#runner,
      images: this.#images,
      size: { least: this.#options.warmPoolSize, most: this.#options.warmPoolMaxSize ?? this.#options.warmPoolSize },
      memoryMb: this.#options.warmPoolMemoryMb,
      base: baseImageName,
      imageOf: (reference, signal) => this.#imageOf(reference, signal),
      isBusy: () => this.#work.isBusy,
      hasRoom: () => hasRoomToAdmit(this.diskRoom()) && hasFreeMemory(this.load),
      logger: this.#options.logger,
    });
    this.#pools.open();
  }

  async #takeOverOne(record: SandboxRecord): Promise<void> {
    const { sandboxId } = record;
    const folder = this.#folderOf(sandboxId);
    if (record.phase === 'ready' && this.#runner.isRunning(folder)) {
      await this.#network.expose(record.address, record.udpPorts ?? []);
      // The last worker may have died while a pause or a copy of the disk had lifted them.
      await this.#runner.limitDisk(record.instance, readPids(folder)!.shim.pid, record.diskRates);
      this.#exits.add(sandboxId);
      if (!this.#cgroups.isFrozen(record.instance)) this.#measure(record);
      return;
    }
    await this.#end(record);
    if (record.phase === 'starting') await this.#records.write({ ...record, phase: 'stopped' });
    if (record.phase !== 'ready' || record.exitReported) return;
    // Either the sandbox ended while no host worker ran, so the listener does not know it, or it ended because the host
    // restarted.
    if (await readExit(folder, record)) this.#exits.add(sandboxId);
    else await this.#records.write({ ...record, exitReported: true });
  }

  create(spec: SandboxSpec, options: CreateOptions = {}): Promise<SandboxPlace> {
    return this.#begin(spec, options, async (work) => {
      const record = this.#records.get(spec.sandboxId);
      // A recreated record does not tell whether the agent has its boot document.
      if (record?.phase === 'ready' && !record.remade && this.#runner.isRunning(work.folder)) {
        await this.#cgroups.thaw(record.instance);
        return this.#existingPlace(work, record);
      }
      return this.#start(work, record);
    });
  }

  resume(spec: SandboxSpec, options: CreateOptions = {}): Promise<SandboxPlace> {
    return this.#begin(spec, options, async (work) => {
      const record = this.#records.get(spec.sandboxId);
      if (record?.phase === 'ready' && this.#runner.isRunning(work.folder)) {
        // Before the thaw, because a later end of the processes must belong to this run.
        const present = await this.#number(work, record);
        if (!present.remade && !this.#cgroups.isFrozen(present.instance)) return this.#existingPlace(work, present);
        requireHostDisk(this.#copy.folder);
        // If the link were broken, the agent would seem not to answer.
        await this.#repairLink(present, spec.allowInternetAccess);
        await this.#starter.thaw(work, present);
        if (present.remade) await this.#records.write({ ...present, remade: undefined });
        this.#measure(record);
        return this.#placeOf(record, 'thaw', work.slots);
      }
      if (!hasDisk(work.folder)) {
        throw diskGone();
      }
      return this.#start(work, record);
    });
  }

  async requireStartable(spec: SandboxSpec, { signal }: CreateOptions = {}): Promise<void> {
    const never = new AbortController().signal;
    try {
      requireHostDisk(this.#copy.folder);
      if (!hasDisk(this.#folderOf(spec.sandboxId))) throw diskGone();
      await this.#imageOf(spec.image, signal ?? never);
    } catch (error) {
      throw startFailure(error, signal ?? never);
    }
  }

  restart(spec: SandboxSpec, options: CreateOptions = {}): Promise<SandboxPlace> {
    return this.#begin(spec, options, async (work) => {
      const record = this.#records.get(spec.sandboxId);
      const isDone = record?.phase === 'ready' && record.run === spec.run && this.#runner.isRunning(work.folder);
      if (isDone) return this.#existingPlace(work, record);
      if (!hasDisk(work.folder)) throw diskGone();
      await this.#stopNow(spec.sandboxId);
      return this.#start(work, this.#records.get(spec.sandboxId));
    });
  }

  async pause(sandboxId: SandboxId, callersSignal?: AbortSignal): Promise<PauseResult> {
    await this.#work.run(sandboxId, callersSignal, async (signal) => {
      const folder = this.#folderOf(sandboxId);
      const record = this.#records.get(sandboxId);
      if (record?.phase !== 'ready' || !this.#runner.isRunning(folder)) {
        const exit = record ? await readExit(folder, record) : null;
        if (exit) throw new DriverError('runtime_exited', "The sandbox's processes have ended", { exit });
        throw new DriverError('sandbox_absent', 'The sandbox does not run on this host');
      }
      await this.#freeze(record, signal);
      this.#unmeasure(sandboxId);
    });
    return { kept: 'memory' };
  }

  /** @throws {DriverError} `pause_failed` after which the sandbox keeps running */
  async #freeze(record: SandboxRecord, signal: AbortSignal): Promise<void> {
    const folder = this.#folderOf(record.sandboxId);
    const freeze = async () => {
      const servers = await this.#mounts.serversAmong(folder, await this.#cgroups.processesOf(record.instance));
      return this.#cgroups.freeze(record.instance, this.#timeouts.pauseSeconds, servers, signal);
    };
    // A process that waits for an unresponsive bucket cannot be frozen.
    const isHanging = async () => !signal.aborted && (await this.#mounts.cutHanging(folder, signal)) > 0;
    if (!(await freeze()) && !((await isHanging()) && (await freeze()))) {
      signal.throwIfAborted();
      const waits = await this.#cgroups.unfreezableWaits(record.instance);
      const reason = waits.length > 0 ? `: processes wait in the kernel (${waits.join(', ')})` : '';
      throw new DriverError('pause_failed', `The sandbox could not be frozen in time${reason}`, { retryable: true });
    }
  }

  /** @throws {DriverError} `sandbox_absent` */
  #presentRecord(sandboxId: SandboxId): SandboxRecord {
    const record = this.#records.get(sandboxId);
    if (record?.phase === 'ready' && this.#runner.isRunning(this.#folderOf(sandboxId))) return record;
    throw new DriverError('sandbox_absent', 'The sandbox does not run on this host');
  }

  async exposeUdp(sandboxId: SandboxId, ports: readonly UdpMapping[]): Promise<void> {
    await this.#lock.run(sandboxId, async () => {
      await this.#expose(this.#presentRecord(sandboxId), ports);
    });
  }

  async sandboxAt(address: string): Promise<SandboxId | null> {
    const found = this.#records
      .all()
      .find(
        (record) =>
          record.address === address &&
          record.phase !== 'stopped' &&
          this.#runner.isRunning(this.#folderOf(record.sandboxId)),
      );
    return found?.sandboxId ?? null;
  }

  async stop(sandboxId: SandboxId): Promise<void> {
    this.#work.cancel(sandboxId, 'The sandbox was stopped');
    await this.#lock.run(sandboxId, () => this.#stopNow(sandboxId));
  }

  async remove(sandboxId: SandboxId): Promise<void> {
    this.#work.cancel(sandboxId, 'The sandbox was removed');
    await this.#lock.run(sandboxId, async () => {
      await this.#stopNow(sandboxId).catch((error) => {
        // The processes have ended, which frees space, so the record can be written now.
        if (!isOutOfSpace(error)) throw error;
      });
      await this.#deleteFolder(this.#folderOf(sandboxId));
      this.#records.forget(sandboxId);
      this.#agentRestarts.forget(sandboxId);
    });
  }

  async inspect(sandboxId: SandboxId): Promise<SandboxInspection> {
    const folder = this.#folderOf(sandboxId);
    const record = this.#records.get(sandboxId);
    const run = record?.run ?? null;
    if (!record || !this.#runner.isRunning(folder)) {
      const exit = record?.phase === 'stopped' ? null : await readExit(folder, record ?? { sandboxId });
      return { sandboxId, state: hasDisk(folder) ? 'exited' : 'absent', run, place: null, exit };
    }
    const state = this.#cgroups.isFrozen(record.instance) ? 'paused' : 'running';
    const place = record.phase === 'ready' ? this.#placeOf(record, 'existing') : null;
    return { sandboxId, state, run, place, exit: null };
  }

  async list(): Promise<SandboxInspection[]> {
    return Promise.all((await this.#records.sandboxIds()).map((sandboxId) => this.inspect(sandboxId)));
  }

  usage(): Promise<SandboxUsage[]> {
    return this.#meter.read();
  }

  onExit(listener: (exit: SandboxExit) => unknown): void {
    this.#exits.onExit(listener);
  }

  get diskFolder(): string {
    return this.#copy.folder;
  }

  diskRoom(): DiskRoom {
    const room = readDiskRoom(this.#copy.folder);
    return { ...room, bytes: room.bytes - this.#cgroups.unwrittenBytes('') };
  }

  diskCapacityBytes(): number {
    const { bavail, bsize } = statfsSync(this.#copy.folder);
    const held = readdirSync(this.#copy.sandboxesFolder).map((name) => {
      const disk = statSync(path.join(this.#copy.sandboxesFolder, name, 'disk.ext4'), { throwIfNoEntry: false });
      return (disk?.blocks ?? 0) * 512;
    });
    return held.reduce((sum, bytes) => sum + bytes, bavail * bsize);
  }

  async diskUse(): Promise<DiskUse[]> {
    const uses: DiskUse[] = [];
    for (const sandboxId of this.#meter.sandboxIds) {
      const folder = this.#folderOf(sandboxId);
      const record = this.#records.get(sandboxId);
      const disk = statSync(path.join(folder, 'disk.ext4'), { throwIfNoEntry: false });
      if (!record || !disk) continue;
      const bytes = disk.blocks * 512 + this.#cgroups.unwrittenBytes(record.instance);
      uses.push({ sandboxId, run: record.run ?? null, bytes, isFrozen: this.#cgroups.isFrozen(record.instance) });
    }
    return uses;
  }

  async halt(sandboxId: SandboxId): Promise<void> {
    const record = this.#records.get(sandboxId);
    if (record?.phase === 'ready') await this.#cgroups.halt(record.instance);
  }

  async endAtOnce(sandboxId: SandboxId): Promise<void> {
    const record = this.#records.get(sandboxId);
    if (!record) return;
    this.#exits.delete(sandboxId);
    // This comes first, because each moment costs disk space.
    await this.#cgroups.kill(record.instance);
    await this.stop(sandboxId);
  }

  async reconcile(knownSandboxIds: Iterable<SandboxId>): Promise<ReconcileReport> {
    const known = new Set(knownSandboxIds);
    const unknown = (await this.#records.sandboxIds()).filter((sandboxId) => !known.has(sandboxId));
    for (const sandboxId of unknown) {
      try {
        await this.remove(sandboxId);
      } catch (error) {
        this.#options.logger.error({ err: error, sandboxId }, 'an unknown sandbox could not be removed');
      }
    }
    return { ...this.#orphans, sandboxes: unknown };
  }

  async repairLinks(sandboxes: readonly LinkedSandbox[]): Promise<SandboxId[]> {
    const repaired: SandboxId[] = [];
    const routes = hostRoutes();
    for (const [at, { sandboxId, allowInternetAccess }] of sandboxes.entries()) {
      if (at % looksAtOnce === looksAtOnce - 1) await nextTurn();
      const pids = readPids(this.#folderOf(sandboxId));
      const connection = this.#connectionOf(sandboxId, allowInternetAccess);
      if (!pids || !connection || isLinkWhole(connection, pids.initPid, routes)) continue;
      // The lock is taken only now, because a start or an end may hold it for long.
      if (this.#work.isBusyWith(sandboxId)) continue;
      await this.#lock.run(sandboxId, async () => {
        const record = this.#records.get(sandboxId);
        if (record && (await this.#repairLink(record, allowInternetAccess))) repaired.push(sandboxId);
      });
    }
    return repaired;
  }

  withoutAgent(sandboxIds: Iterable<SandboxId>): SandboxId[] {
    return [...sandboxIds].filter(
      (sandboxId) =>
        !this.#work.isBusyWith(sandboxId) && this.#agentRestarts.isDue(sandboxId) && this.#isAgentGone(sandboxId),
    );
  }

  async restartAgent(spec: SandboxSpec): Promise<void> {
    const { sandboxId } = spec;
    const folder = this.#folderOf(sandboxId);
    await this.#agentRestarts.run(
      spec,
      () =>
        this.#work.run(sandboxId, AbortSignal.timeout(agentRestartTimeoutMs), async (signal) => {
          return this.#isAgentGone(sandboxId) && this.#starter.restartAgent({ spec, folder, signal });
        }),
      () => !this.#isAgentGone(sandboxId),
    );
  }

  get secondsPerStart(): number | null {
    return this.#starter.secondsPerStart;
  }

  get poolReady(): number {
    return this.#pools?.ready ?? 0;
  }

  get pooledImages(): string[] {
    return this.#pools?.references ?? [];
  }

  async dropPooled(image: string): Promise<void> {
    await this.#pools?.drop(image);
  }

  async close(): Promise<void> {
    this.#exits.close();
    await this.#figures.stop();
    await this.#pools?.close();
    await this.builtinImages.close();
    this.#network.close();
    this.#registry?.close();
    await this.#images.settled();
  }

  async leaveIfEmpty(): Promise<void> {
    if (liveShims(this.#copy).length > 0 || (await this.#cgroups.instances()).length > 0) return;
    await this.fence.teardown();
    await this.#network.teardown();
    await this.#cgroups.teardown();
  }

  /** Runs a create or a resume, at most one at a time per sandbox. The caller or `stop` can cancel it. */
  #begin(spec: SandboxSpec, options: CreateOptions, act: (work: Work) => Promise<SandboxPlace>): Promise<SandboxPlace> {
    const folder = this.#folderOf(spec.sandboxId);
    const phases = new PhaseReports(options.onPhase);
    const watch = new Stopwatch();
    return this.#work.run(spec.sandboxId, options.signal, async (signal) => {
      try {
        const place = await act({ spec, folder, phases, watch, signal });
        await this.#exposeAs(spec, place);
        watch.mark('done');
        this.#options.onTrace?.({ sandboxId: spec.sandboxId, from: place.from, steps: watch.steps });
        return place;
      } catch (error) {
        throw startFailure(error, signal);
      }
    });
  }

  async #start(work: Work, before: SandboxRecord | null): Promise<SandboxPlace> {
    const { sandboxId } = work.spec;
    const { record, from } = await this.#starter.start(work, before, this.#pools ?? null);
    this.#exits.add(sandboxId);
    this.#measure(record);
    return this.#placeOf(record, from, work.slots);
  }

  /** Applies the fields of the sandbox's row that are needed from its start. */
  async #exposeAs({ sandboxId, udpPorts }: SandboxSpec, { address }: SandboxPlace): Promise<void> {
    if (udpPorts.length === 0 && !this.#network.isExposed(address)) return;
    const record = this.#records.get(sandboxId);
    if (record) await this.#expose(record, udpPorts);
  }

  /** Writes the record first, so that after a crash another host worker restores the same ports. */
  async #expose(record: SandboxRecord, ports: readonly UdpMapping[]): Promise<void> {
    if (JSON.stringify(ports) !== JSON.stringify(record.udpPorts ?? [])) {
      await this.#records.write({ ...record, udpPorts: [...ports] });
    }
    await this.#network.expose(record.address, ports);
  }

  async #stopNow(sandboxId: SandboxId): Promise<void> {
    const folder = this.#folderOf(sandboxId);
    this.#exits.delete(sandboxId);
    this.#unmeasure(sandboxId);
    const record = this.#records.get(sandboxId);
    const recordStopped = async () => {
      if (record && record.phase !== 'stopped' && existsSync(folder)) {
        await this.#records.write({ ...record, phase: 'stopped' });
      }
    };
    let isRecorded = true;
    await recordStopped().catch((error) => {
      // On a full disk the end comes first, because it frees space.
      if (!isOutOfSpace(error)) throw error;
      isRecorded = false;
    });
    // If the sandbox's files are missing, its resources outside the folder must be read from the kernel.
    const isWhole = record !== null && readPids(folder) !== null;
    if (record) await this.#end(record);
    if (!isWhole) await this.#runner.endStrays(sandboxId, folder);
    if (!isRecorded) await recordStopped();
  }

  #unmeasure(sandboxId: SandboxId): void {
    this.#meter.end(sandboxId);
    this.#figures.end(sandboxId);
  }

  #measure(record: SandboxRecord): void {
    const { shim } = readPids(this.#folderOf(record.sandboxId))!;
    this.#figures.begin(record.sandboxId, record.instance, shim);
    this.#meter.begin(record.sandboxId, {
      files: this.#cgroups.usageFiles(record.instance),
      diskFolder: `/proc/${shim.pid}/root/mnt/disk`,
      interface: this.#network.interfaceOf(record.address),
    });
  }

  #end(record: SandboxRecord): Promise<void> {
    this.#unmeasure(record.sandboxId);
    return this.#runner.end(this.#folderOf(record.sandboxId), record.instance, record.address);
  }

  /**
   * Moves the folder aside first, so that an interrupted deletion leaves no half-deleted sandbox. Needs no disk space.
   */
  async #deleteFolder(folder: string): Promise<void> {
    const trash = path.join(this.#copy.trashFolder, `sandbox-${randomBytes(6).toString('hex')}`);
    try {
      await rename(folder, trash);
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      if (code === 'ENOENT') return;
      if (!isOutOfSpace(error)) throw error;
      // The trash folder had no space for another entry.
      await rm(folder, { recursive: true, force: true });
    }
    await rm(trash, { recursive: true, force: true });
  }

  async #imageOf(reference: string, signal: AbortSignal): Promise<UnpackedImage> {
    try {
      return await this.#images.get(() => this.#makeImage(reference, signal));
    } catch (error) {
      throw imageFailure(error, signal);
    }
  }

  /** Returns the image from the cache if it is there. */
  async #makeImage(reference: string, signal: AbortSignal): Promise<UnpackedImage> {
    const { cacheDir, registryInsecureHttp } = this.#options;
    const limits = this.#options.imageLimits ?? defaultImageLimits;
    if (reference === baseImageName) return ensureBaseImage({ ...this.#baseImage(), signal });
    if (reference.startsWith('builtin:')) return this.builtinImages.get(reference, signal);
    const stored = readRegistryImage(reference);
    if (!stored) return ensureImage({ cacheDir, reference, registryInsecureHttp, limits, signal });
    const registry = this.#registry;
    if (!registry) throw new Error('this host knows no registry of the platform');
    const make = (draft: string) => registry.pull(stored, draft, limits, signal);
    return makeImageOnce({ cacheDir, digest: stored.digest, make, signal });
  }

  #baseImage(): BaseImageOptions {
    const { cacheDir, registryInsecureHttp, baseImage, imageLimits } = this.#options;
    const limits = imageLimits ?? defaultImageLimits;
    return {
      cacheDir,
      ...(baseImage && { reference: baseImage }),
      ...(registryInsecureHttp && { registryInsecureHttp }),
      limits,
    };
  }

  #placeOf(record: SandboxRecord, from: SandboxPlace['from'], slots?: MountSlot[]): SandboxPlace {
    return { address: record.address, agentPort, from, ...(slots && { slots }) };
  }

  /** Null: the sandbox is not ready. */
  #connectionOf(sandboxId: SandboxId, allowInternetAccess: boolean): SandboxConnection | null {
    const record = this.#records.get(sandboxId);
    return record?.phase === 'ready' ? this.#network.connectionOf(record.address, allowInternetAccess) : null;
  }

  /** Whether the sandbox runs without its agent. False for frozen processes, in which nothing can be started. */
  #isAgentGone(sandboxId: SandboxId): boolean {
    const record = this.#records.get(sandboxId);
    if (record?.phase !== 'ready') return false;
    if (!this.#runner.isAgentGone(this.#folderOf(sandboxId))) return false;
    return !this.fence.isClosed && !this.#cgroups.isFrozen(record.instance);
  }

  /** @returns whether a part of the link had to be repaired */
  async #repairLink(record: SandboxRecord, allowInternetAccess: boolean): Promise<boolean> {
    const folder = this.#folderOf(record.sandboxId);
    const connection = this.#connectionOf(record.sandboxId, allowInternetAccess);
    const pids = readPids(folder);
    if (!connection || !pids || !this.#runner.isRunning(folder)) return false;
    if (isLinkWhole(connection, pids.initPid, hostRoutes())) return false;
    await repairLink(connection, pids.initPid);
    this.#options.logger.warn(
      { sandboxId: record.sandboxId },
      'the link or route of a sandbox was missing and was restored',
    );
    // The counters of the new link begin at zero.
    if (!this.#cgroups.isFrozen(record.instance)) this.#measure(record);
    return true;
  }

  /** Records the start or resume that the processes belong to. */
  async #number({ spec }: Work, record: SandboxRecord): Promise<SandboxRecord> {
    if (spec.run === null || record.run === spec.run) return record;
    const numbered = { ...record, run: spec.run };
    await this.#records.write(numbered);
    return numbered;
  }

  /** Returns the place of a sandbox that an earlier try has already started. */
  async #existingPlace({ spec, folder }: Work, record: SandboxRecord): Promise<SandboxPlace> {
    return this.#placeOf(record, 'existing', spec.storage && (await this.#mounts.current(folder, spec.storage.slots)));
  }

  #folderOf(sandboxId: SandboxId): string {
    return this.#records.folderOf(sandboxId);
  }
}

function hasFreeMemory(machine: MachineLoad): boolean {
  const memory = machine.memory();
  return freeMemoryMb({ ...memory, reserveMb: memoryReserveMb(memory.totalMb) }) > 0;
}

const diskGone = () => new DriverError('sandbox_absent', 'The sandbox and its disk are gone from this host');
