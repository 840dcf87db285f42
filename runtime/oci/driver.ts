import type { SandboxId } from '../../domain/ids.ts';
import type { UdpMapping } from '../../domain/sandboxes/ports.ts';
import { CancellableWork } from '../cancellable-work.ts';
import { type DiskSpace, hasSpaceToAdmit, requireHostDisk } from '../disk/disk-space.ts';
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
import type { DiskUse, HostDriver, LinkedSandbox, PortRange, Pressure } from '../host-driver.ts';
import type { BuiltinImages } from '../images/builtin-images.ts';
import { MachineLoad } from '../machine-load.ts';
import { KeyedLock } from '../process/keyed-lock.ts';
import type { Cgroups } from './cgroups.ts';
import type { ContainerRunner } from './container-runner.ts';
import type { Copy } from './copy.ts';
import { ExitWatch } from './exit-watch.ts';
import { startFailure } from './failures.ts';
import { Fence } from './fence.ts';
import { freezeSandbox } from './freeze-sandbox.ts';
import { LocalImageBuilds } from './image-builds.ts';
import { LinkRepair } from './link-repair.ts';
import { liveShims } from './live-shims.ts';
import { LostAgents } from './lost-agents.ts';
import { baseImageName, MachineImages } from './machine-images.ts';
import type { SandboxMounts } from './mounts/sandbox-mounts.ts';
import { ExposedPorts, type SandboxNetwork } from './network.ts';
import type { OciDriverOptions } from './options.ts';
import { PausedMemory } from './paused-memory.ts';
import type { ReconcileReport } from './reconcile.ts';
import { SandboxDisks } from './sandbox-disks.ts';
import { SandboxEnds } from './sandbox-ends.ts';
import { SandboxInspector } from './sandbox-inspector.ts';
import { SandboxMeters } from './sandbox-meters.ts';
import { hasDisk, readExit, type SandboxRecord, SandboxRecords, toSandboxPlace } from './sandbox-records.ts';
import { SandboxStarter, type StartTimeouts, Stopwatch, type Work } from './sandbox-starter.ts';
import { takeOver } from './take-over.ts';
import { WarmPools } from './warm-pools.ts';

/** This machine as a host. `createOciDriver` makes it. */
export class LocalDriver implements HostDriver {
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
  readonly #images: MachineImages;
  readonly builtinImages: BuiltinImages;
  readonly #timeouts: StartTimeouts;
  readonly #lock = new KeyedLock();
  readonly #records: SandboxRecords;
  /** Running creates, resumes and pauses of each sandbox, and those that wait for its lock. `stop` aborts them. */
  readonly #work = new CancellableWork(this.#lock);
  readonly #starter: SandboxStarter;
  readonly #exits: ExitWatch;
  readonly #meters: SandboxMeters;
  readonly #ends: SandboxEnds;
  readonly #disks: SandboxDisks;
  readonly #inspector: SandboxInspector;
  readonly #agents: LostAgents;
  readonly #links: LinkRepair;
  readonly #udp: ExposedPorts;
  readonly #pausedMemory: PausedMemory;
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
    const { logger } = parts.options;
    this.#images = new MachineImages(parts.options);
    this.builtinImages = this.#images.builtin;
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
    this.#disks = new SandboxDisks({ ...parts, records: this.#records });
    this.#inspector = new SandboxInspector({ ...parts, records: this.#records });
    this.#starter = new SandboxStarter({
      ...parts,
      records: this.#records,
      timeouts: this.#timeouts,
      images: this.#images.cache,
      getImage: (reference, signal) => this.#images.get(reference, signal),
    });
    this.#meters = new SandboxMeters({ ...parts, records: this.#records, logger });
    this.#ends = new SandboxEnds({ ...parts, records: this.#records, meters: this.#meters });
    this.#agents = new LostAgents({
      ...parts,
      ...{ records: this.#records, fence: this.fence, work: this.#work, starter: this.#starter, logger },
    });
    this.#udp = new ExposedPorts({ ...parts, records: this.#records });
    this.#pausedMemory = new PausedMemory({ ...parts, logger });
    this.#links = new LinkRepair({
      ...parts,
      records: this.#records,
      lock: this.#lock,
      work: this.#work,
      onRepair: (record) => {
        if (!this.#cgroups.freezer.isFrozen(record.instance)) this.#meters.begin(record);
      },
      logger,
    });
    this.builds = new LocalImageBuilds({
      ...parts,
      sandboxFolder: (sandboxId) => this.#sandboxFolder(sandboxId),
      findRecord: (sandboxId) => this.#presentRecord(sandboxId),
      alone: (sandboxId, signal, work) => this.#work.run(sandboxId, signal, work),
      freeze: (record, signal) => this.#freeze(record, signal),
      getImage: (reference, signal) => this.#images.get(reference, signal),
      diskSpace: () => this.diskSpace(),
      availableMemoryBytes: () => this.load.memory().availableMb * 1024 * 1024,
    });
    this.#exits = new ExitWatch({
      lock: this.#lock,
      records: this.#records,
      end: (record) => this.#ends.end(record),
      logger: parts.options.logger,
    });
  }

  /** Repairs and removes the leftovers of an earlier process. */
  async takeOver(): Promise<void> {
    this.#orphans = await takeOver({
      ...{ copy: this.#copy, cgroups: this.#cgroups, network: this.#network, runner: this.#runner },
      ...{ records: this.#records, exits: this.#exits, meters: this.#meters, ends: this.#ends },
      pausedMemory: this.#pausedMemory,
      logger: this.#options.logger,
    });
    await this.builds.open();
    this.#meters.start();
    if (this.#options.warmPoolSize === 0) return;
    this.#pools = new WarmPools({
      copy: this.#copy,
      cgroups: this.#cgroups,
      network: this.#network,
      runner: this.#runner,
      images: this.#images.cache,
      size: { least: this.#options.warmPoolSize, most: this.#options.warmPoolMaxSize ?? this.#options.warmPoolSize },
      memoryMb: this.#options.warmPoolMemoryMb,
      base: baseImageName,
      getImage: (reference, signal) => this.#images.get(reference, signal),
      isBusy: () => this.#work.isBusy,
      hasCapacity: () => hasSpaceToAdmit(this.diskSpace()) && this.load.hasFreeMemory,
      logger: this.#options.logger,
    });
    this.#pools.open();
  }

  create(spec: SandboxSpec, options: CreateOptions = {}): Promise<SandboxPlace> {
    return this.#begin(spec, options, async (work) => {
      const record = this.#records.get(spec.sandboxId);
      // A recreated record does not tell whether the agent has its boot document.
      if (record?.phase === 'ready' && !record.remade && this.#runner.isRunning(work.folder)) {
        await this.#cgroups.freezer.thaw(record.instance);
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
        if (!present.remade && !this.#cgroups.freezer.isFreezeRequested(present.instance))
          return this.#existingPlace(work, present);
        requireHostDisk(this.#copy.folder);
        // If the link were broken, the agent would seem not to answer.
        await this.#links.repair(present, spec.allowInternetAccess);
        await this.#starter.thaw(work, present);
        if (present.remade) await this.#records.write({ ...present, remade: undefined });
        this.#meters.begin(record);
        return toSandboxPlace(record, 'thaw', work.slots);
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
      if (!hasDisk(this.#sandboxFolder(spec.sandboxId))) throw diskGone();
      await this.#images.get(spec.image, signal ?? never);
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
      const folder = this.#sandboxFolder(sandboxId);
      const record = this.#records.get(sandboxId);
      if (record?.phase !== 'ready' || !this.#runner.isRunning(folder)) {
        const exit = record ? await readExit(folder, record) : null;
        if (exit) throw new DriverError('runtime_exited', "The sandbox's processes have ended", { exit });
        throw new DriverError('sandbox_absent', 'The sandbox does not run on this host');
      }
      await this.#freeze(record, signal);
      this.#meters.end(sandboxId);
      this.#pausedMemory.giveBackLater(record.instance);
    });
    return { kept: 'memory' };
  }

  #freeze({ sandboxId, instance }: SandboxRecord, signal: AbortSignal): Promise<void> {
    const what = { instance, folder: this.#sandboxFolder(sandboxId), seconds: this.#timeouts.pauseSeconds };
    return freezeSandbox(what, { cgroups: this.#cgroups, mounts: this.#mounts }, signal);
  }

  /** @throws {DriverError} `sandbox_absent` */
  #presentRecord(sandboxId: SandboxId): SandboxRecord {
    const record = this.#records.get(sandboxId);
    if (record?.phase === 'ready' && this.#runner.isRunning(this.#sandboxFolder(sandboxId))) return record;
    throw new DriverError('sandbox_absent', 'The sandbox does not run on this host');
  }

  async exposeUdp(sandboxId: SandboxId, ports: readonly UdpMapping[]): Promise<void> {
    await this.#lock.run(sandboxId, async () => {
      await this.#udp.expose(this.#presentRecord(sandboxId), ports);
    });
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
      await this.#ends.deleteFolder(sandboxId);
      this.#records.forget(sandboxId);
      this.#agents.forget(sandboxId);
    });
  }

  inspect(sandboxId: SandboxId): Promise<SandboxInspection> {
    return this.#inspector.inspect(sandboxId);
  }

  list(): Promise<SandboxInspection[]> {
    return this.#inspector.list();
  }

  sandboxAt(address: string): Promise<SandboxId | null> {
    return this.#inspector.sandboxAt(address);
  }

  usage(): Promise<SandboxUsage[]> {
    return this.#meters.read();
  }

  onExit(listener: (exit: SandboxExit) => unknown): void {
    this.#exits.onExit(listener);
  }

  get diskFolder(): string {
    return this.#copy.folder;
  }

  diskSpace(): DiskSpace {
    return this.#disks.space();
  }

  diskCapacityBytes(): number {
    return this.#disks.capacityBytes();
  }

  async diskUse(): Promise<DiskUse[]> {
    return this.#meters.sandboxIds.flatMap((sandboxId) => this.#disks.readUse(sandboxId) ?? []);
  }

  async halt(sandboxId: SandboxId): Promise<void> {
    const record = this.#records.get(sandboxId);
    if (record?.phase === 'ready') await this.#cgroups.freezer.halt(record.instance);
  }

  async endNow(sandboxId: SandboxId): Promise<void> {
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

  repairLinks(sandboxes: readonly LinkedSandbox[]): Promise<SandboxId[]> {
    return this.#links.repairAll(sandboxes);
  }

  withoutAgent(sandboxIds: Iterable<SandboxId>): SandboxId[] {
    return this.#agents.lost(sandboxIds);
  }

  restartAgent(spec: SandboxSpec): Promise<void> {
    return this.#agents.restart(spec);
  }

  get secondsPerStart(): number | null {
    return this.#starter.secondsPerStart;
  }

  pressure(): Pressure | null {
    return this.#cgroups.readPressure();
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
    this.#pausedMemory.close();
    await this.#meters.close();
    await this.#pools?.close();
    this.#network.close();
    await this.#images.close();
  }

  async leaveIfEmpty(): Promise<void> {
    if (liveShims(this.#copy).length > 0 || (await this.#cgroups.instances()).length > 0) return;
    await this.fence.teardown();
    await this.#network.teardown();
    await this.#cgroups.teardown();
  }

  /** Runs a create or a resume, at most one at a time per sandbox. The caller or `stop` can cancel it. */
  #begin(spec: SandboxSpec, options: CreateOptions, act: (work: Work) => Promise<SandboxPlace>): Promise<SandboxPlace> {
    const folder = this.#sandboxFolder(spec.sandboxId);
    const { onPhase = () => undefined } = options;
    const watch = new Stopwatch();
    return this.#work.run(spec.sandboxId, options.signal, async (signal) => {
      try {
        const place = await act({ spec, folder, onPhase, watch, signal });
        await this.#udp.exposeAs(spec, place);
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
    this.#meters.begin(record);
    return toSandboxPlace(record, from, work.slots);
  }

  async #stopNow(sandboxId: SandboxId): Promise<void> {
    this.#exits.delete(sandboxId);
    await this.#ends.stop(sandboxId);
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
    return toSandboxPlace(record, 'existing', spec.storage && (await this.#mounts.current(folder, spec.storage.slots)));
  }

  #sandboxFolder(sandboxId: SandboxId): string {
    return this.#records.sandboxFolder(sandboxId);
  }
}

const diskGone = () => new DriverError('sandbox_absent', 'The sandbox and its disk are gone from this host');
