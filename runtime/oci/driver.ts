import { mkdtemp, rename, rm, writeFile } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import {
  type CreateOptions,
  DriverError,
  type SandboxExit,
  type SandboxInspection,
  type SandboxPlace,
  type SandboxSpec,
} from '../driver.ts';
import { ensureBaseImage } from '../images/base-image.ts';
import { ensureImage } from '../images/image-store.ts';
import type { UnpackedImage } from '../images/unpacked-image.ts';
import { runCommand } from '../process/command.ts';
import { KeyedLock } from '../process/keyed-lock.ts';
import { isAlive, type ProcessIdentity } from '../process/process-identity.ts';
import { Semaphore } from '../process/semaphore.ts';
import { AgentClient, AgentError, type AgentInit } from './agent-client.ts';
import { requireHostDisk } from './blank-disk.ts';
import { Cgroups } from './cgroups.ts';
import { agentPort } from './container-config.ts';
import { ContainerRunner } from './container-runner.ts';
import { type Copy, openCopy } from './copy.ts';
import { imageFailure, startFailure } from './failures.ts';
import { type Inventory, takeInventory } from './inventory.ts';
import type { Boot } from './launch.ts';
import { type SandboxConnection, SandboxNetwork } from './network.ts';
import { findRuntime } from './oci-runtime.ts';
import type { OciDriver, OciDriverOptions } from './options.ts';
import { PhaseTeller } from './phase-teller.ts';
import { requirePrerequisites } from './prerequisites.ts';
import { whenProbeSucceeds } from './ready-probe.ts';
import { type ReconcileReport, removeOrphans } from './reconcile.ts';
import { ensureRuntimeFolder } from './runtime-folder.ts';
import {
  foldersIn,
  hasDisk,
  readExit,
  readPids,
  readRecord,
  type SandboxRecord,
  unrecordedExit,
  writeRecord,
} from './sandbox-folder.ts';
import { seccompConfig } from './seccomp.ts';
import { Stopwatch } from './stopwatch.ts';
import { type PoolMember, WarmPool } from './warm-pool.ts';

export type { CreateTrace, DriverLogger, OciDriver, OciDriverOptions } from './options.ts';

const watchIntervalMs = 1000;
const endCheckIntervalMs = 50;
const startTimeoutSeconds = 30;
const thawTimeoutSeconds = 10;
const baseImageName = 'builtin:base';

/**
 * Opens this machine as a host: checks what it needs, sets up the network, ends what an earlier process left half-made,
 * and takes over the sandboxes that still run.
 * @throws {Error} when the machine lacks something, with what to install or change.
 */
export async function createOciDriver(options: OciDriverOptions): Promise<OciDriver> {
  requirePrerequisites();
  const copy = await openCopy(options.dataDir);
  const cgroups = new Cgroups(copy.cgroup);
  const [runtime, runtimeFolder] = await Promise.all([
    findRuntime(options.runtime, cgroups),
    ensureRuntimeFolder(options.cacheDir, options.agentDir),
    cgroups.prepare(),
  ]);
  const seccomp = await seccompConfig(options.cacheDir, runtime, runtimeFolder);
  const network = await SandboxNetwork.open(copy, options);
  const runner = new ContainerRunner({ copy, cgroups, network, runtime, runtimeFolder, seccomp });
  const driver = new LocalDriver({ copy, cgroups, network, runner, runtime: runtime.name, options });
  await driver.takeOver();
  return driver;
}

class LocalDriver implements OciDriver {
  readonly copyId: string;
  readonly subnet: string;
  readonly runtime: 'crun' | 'runc';
  readonly #copy: Copy;
  readonly #cgroups: Cgroups;
  readonly #network: SandboxNetwork;
  readonly #runner: ContainerRunner;
  readonly #options: OciDriverOptions;
  readonly #lock = new KeyedLock();
  /** A start keeps a processor busy; more of them at once would only all be late. */
  readonly #starting = new Semaphore(2 * os.availableParallelism());
  /** Creates and resumes that go on now; `stop` aborts them. */
  readonly #underway = new Map<string, AbortController>();
  /** Sandboxes that should be running, with their shims. */
  readonly #watched = new Map<string, ProcessIdentity | undefined>();
  readonly #listeners: ((exit: SandboxExit) => void)[] = [];
  /** What `takeOver` found without an owner. */
  #orphans: Omit<ReconcileReport, 'sandboxes'> = { poolMembers: [], containers: [], interfaces: [] };
  #watch: NodeJS.Timeout | undefined;
  #pool: WarmPool | undefined;

  constructor(parts: {
    copy: Copy;
    cgroups: Cgroups;
    network: SandboxNetwork;
    runner: ContainerRunner;
    runtime: 'crun' | 'runc';
    options: OciDriverOptions;
  }) {
    this.#copy = parts.copy;
    this.#cgroups = parts.cgroups;
    this.#network = parts.network;
    this.#runner = parts.runner;
    this.#options = parts.options;
    this.copyId = parts.copy.id;
    this.subnet = parts.network.subnet;
    this.runtime = parts.runtime;
  }

  /** Puts right what an earlier process left. */
  async takeOver(): Promise<void> {
    this.#orphans = await removeOrphans({
      copy: this.#copy,
      cgroups: this.#cgroups,
      network: this.#network,
      runner: this.#runner,
    });
    if (Object.values(this.#orphans).some((found) => found.length > 0)) {
      this.#options.logger.info({ ...this.#orphans }, 'removed what an earlier process left');
    }
    for (const sandboxId of await foldersIn(this.#copy.sandboxesFolder)) {
      const folder = this.#folderOf(sandboxId);
      const record = await readRecord(folder);
      if (!record) continue;
      if (record.phase === 'ready' && this.#runner.isRunning(folder)) {
        this.#network.adopt(record.address);
        this.#watched.set(sandboxId, readPids(folder)?.shim);
        continue;
      }
      await this.#end(record);
      if (record.phase === 'starting') await writeRecord(folder, { ...record, phase: 'stopped' });
      if (record.phase !== 'ready' || record.exitReported) continue;
      // Either it ended while nobody looked, and the listener is yet to be told, or it went with a host that restarted.
      if (await readExit(folder, sandboxId)) this.#watched.set(sandboxId, undefined);
      else await writeRecord(folder, { ...record, exitReported: true });
    }
    this.#watch = setInterval(() => this.#lookForExits(), watchIntervalMs).unref();
    if (this.#options.warmPoolSize === 0) return;
    this.#pool = new WarmPool({
      copy: this.#copy,
      cgroups: this.#cgroups,
      network: this.#network,
      runner: this.#runner,
      size: this.#options.warmPoolSize,
      image: () => this.#imageOf(baseImageName, new AbortController().signal),
      isBusy: () => this.#underway.size > 0,
      logger: this.#options.logger,
    });
    await this.#pool.open();
  }

  create(spec: SandboxSpec, options: CreateOptions = {}): Promise<SandboxPlace> {
    return this.#begin(spec, options, async (work) => {
      const record = await readRecord(work.folder);
      if (record?.phase === 'ready' && this.#runner.isRunning(work.folder)) {
        await this.#cgroups.thaw(record.instance);
        return this.#placeOf(record, 'existing');
      }
      return this.#startAndWait(spec, record, work);
    });
  }

  resume(spec: SandboxSpec, options: CreateOptions = {}): Promise<SandboxPlace> {
    return this.#begin(spec, options, async (work) => {
      const record = await readRecord(work.folder);
      if (record?.phase === 'ready' && this.#runner.isRunning(work.folder)) {
        if (!this.#cgroups.isFrozen(record.instance)) return this.#placeOf(record, 'existing');
        return this.#thaw(spec, record, work);
      }
      if (!hasDisk(work.folder)) {
        throw new DriverError('sandbox_absent', 'The sandbox and its disk are gone from this host');
      }
      return this.#startAndWait(spec, record, work);
    });
  }

  async pause(sandboxId: string): Promise<void> {
    await this.#lock.run(sandboxId, async () => {
      const folder = this.#folderOf(sandboxId);
      const record = await readRecord(folder);
      if (record?.phase !== 'ready' || !this.#runner.isRunning(folder)) {
        const exit = record ? await readExit(folder, sandboxId) : null;
        if (exit) throw new DriverError('runtime_exited', "The sandbox's processes have ended", { exit });
        throw new DriverError('sandbox_absent', 'The sandbox does not run on this host');
      }
      if (!(await this.#cgroups.freeze(record.instance, this.#options.pauseTimeoutSeconds ?? 10))) {
        throw new DriverError('pause_failed', 'The sandbox could not be frozen in time', { retryable: true });
      }
    });
  }

  async stop(sandboxId: string): Promise<void> {
    this.#underway.get(sandboxId)?.abort(new DriverError('aborted', 'The sandbox was stopped'));
    await this.#lock.run(sandboxId, () => this.#stopNow(sandboxId));
  }

  async remove(sandboxId: string): Promise<void> {
    this.#underway.get(sandboxId)?.abort(new DriverError('aborted', 'The sandbox was removed'));
    await this.#lock.run(sandboxId, async () => {
      await this.#stopNow(sandboxId);
      await this.#deleteFolder(this.#folderOf(sandboxId));
    });
  }

  async inspect(sandboxId: string): Promise<SandboxInspection> {
    const folder = this.#folderOf(sandboxId);
    const record = await readRecord(folder);
    if (!record) {
      return { sandboxId, state: hasDisk(folder) ? 'exited' : 'absent', place: null, exit: null };
    }
    if (!this.#runner.isRunning(folder)) {
      const exit = record.phase === 'ready' ? await readExit(folder, sandboxId) : null;
      return { sandboxId, state: 'exited', place: null, exit };
    }
    const state = this.#cgroups.isFrozen(record.instance) ? 'paused' : 'running';
    return { sandboxId, state, place: record.phase === 'ready' ? this.#placeOf(record, 'existing') : null, exit: null };
  }

  async list(): Promise<SandboxInspection[]> {
    return Promise.all((await foldersIn(this.#copy.sandboxesFolder)).map((sandboxId) => this.inspect(sandboxId)));
  }

  onExit(listener: (exit: SandboxExit) => void): void {
    this.#listeners.push(listener);
    this.#lookForExits();
  }

  async reconcile(knownSandboxIds: Iterable<string>): Promise<ReconcileReport> {
    const known = new Set(knownSandboxIds);
    const unknown = (await foldersIn(this.#copy.sandboxesFolder)).filter((sandboxId) => !known.has(sandboxId));
    for (const sandboxId of unknown) await this.remove(sandboxId);
    return { ...this.#orphans, sandboxes: unknown };
  }

  get poolReady(): number {
    return this.#pool?.ready ?? 0;
  }

  inventory(): Promise<Inventory> {
    return takeInventory(this.#copy, this.#cgroups, this.#network);
  }

  async stopAll(): Promise<void> {
    await Promise.all((await foldersIn(this.#copy.sandboxesFolder)).map((sandboxId) => this.stop(sandboxId)));
  }

  async close(): Promise<void> {
    clearInterval(this.#watch);
    await this.#pool?.close();
    this.#network.close();
  }

  async teardown(): Promise<void> {
    await this.close();
    await this.reconcile([]);
    await this.#network.teardown();
    await this.#cgroups.teardown();
  }

  /** Runs a create or a resume: one at a time for each sandbox, cancelled by the caller or by `stop`. */
  #begin(spec: SandboxSpec, options: CreateOptions, act: (work: Work) => Promise<SandboxPlace>): Promise<SandboxPlace> {
    const folder = this.#folderOf(spec.sandboxId);
    const phases = new PhaseTeller(options.onPhase);
    const watch = new Stopwatch();
    return this.#lock.run(spec.sandboxId, async () => {
      const stopper = new AbortController();
      this.#underway.set(spec.sandboxId, stopper);
      const signal = options.signal ? AbortSignal.any([options.signal, stopper.signal]) : stopper.signal;
      try {
        signal.throwIfAborted();
        const place = await act({ folder, phases, watch, signal });
        watch.mark('done');
        this.#options.onTrace?.({ sandboxId: spec.sandboxId, from: place.from, steps: watch.steps });
        return place;
      } catch (error) {
        throw startFailure(error, signal);
      } finally {
        this.#underway.delete(spec.sandboxId);
      }
    });
  }

  async #startAndWait(spec: SandboxSpec, before: SandboxRecord | null, work: Work): Promise<SandboxPlace> {
    const { folder, phases, watch, signal } = work;
    phases.tell('deploying');
    await requireHostDisk(this.#copy.folder);
    if (before) await this.#end(before);
    const image = await this.#imageOf(spec.image, signal);
    watch.mark('image');
    const member = hasDisk(folder) ? null : this.#poolMemberFor(spec, image);
    const connection = member?.connection ?? this.#network.take(spec.allowInternetAccess);
    const record: SandboxRecord = {
      sandboxId: spec.sandboxId,
      instance: member?.instance ?? spec.sandboxId,
      phase: 'starting',
      address: connection.address,
      exitReported: false,
    };
    try {
      await this.#starting.run(async () => {
        signal.throwIfAborted();
        const boot = member
          ? await this.#nameMember(member, spec, record, work)
          : await this.#startCold(spec, image, connection, record, work);
        boot({ platformToken: spec.platformToken, init: agentInit(spec, image) });
        await this.#waitForAgent(spec, record, work);
      });
      await this.#waitForProbe(spec, record, work);
      await phases.finish();
      signal.throwIfAborted();
      await writeRecord(folder, { ...record, phase: 'ready' });
    } catch (error) {
      await this.#end(record);
      await writeRecord(folder, { ...record, phase: 'stopped' });
      throw error;
    }
    this.#watched.set(spec.sandboxId, readPids(folder)?.shim);
    return this.#placeOf(record, member ? 'pool' : 'cold');
  }

  async #startCold(
    spec: SandboxSpec,
    image: UnpackedImage,
    connection: SandboxConnection,
    record: SandboxRecord,
    { folder, watch, signal }: Work,
  ): Promise<Boot> {
    await writeRecord(folder, record);
    return this.#runner.start({
      folder,
      instance: record.instance,
      hostname: spec.sandboxId,
      image,
      limits: spec,
      storageGb: spec.storageGb,
      connection,
      onStep: (step) => watch.mark(step),
      signal,
    });
  }

  #poolMemberFor(spec: SandboxSpec, image: UnpackedImage): PoolMember | null {
    return spec.image === baseImageName ? (this.#pool?.claim(image, spec.storageGb) ?? null) : null;
  }

  /** Makes a pool member this sandbox: from the rename on it is found as its half-made beginning. */
  async #nameMember(
    member: PoolMember,
    spec: SandboxSpec,
    record: SandboxRecord,
    { folder, watch }: Work,
  ): Promise<Boot> {
    await writeRecord(member.folder, record);
    await rm(folder, { recursive: true, force: true });
    await rename(member.folder, folder);
    const { hosts, hostname } = this.#network.files(spec.sandboxId, record.address);
    // Nothing but the agent has ever run in it, so what lies in its folder is what was put there.
    const files = `/proc/${member.shimPid}/root/mnt/tail`;
    await Promise.all([
      this.#cgroups.setLimits(member.instance, spec),
      this.#network.setInternetAccess(record.address, spec.allowInternetAccess),
      writeFile(`${files}/hosts`, hosts),
      writeFile(`${files}/hostname`, hostname),
      runCommand('nsenter', [`--uts=/proc/${member.initPid}/ns/uts`, 'hostname', spec.sandboxId]),
    ]);
    await this.#cgroups.thaw(member.instance);
    watch.mark('claimed');
    return member.boot;
  }

  async #waitForAgent(spec: SandboxSpec, record: SandboxRecord, work: Work): Promise<void> {
    work.phases.tell('initializing');
    const agent = new AgentClient(record.address, spec.platformToken);
    const timeoutSeconds = this.#options.agentStartTimeoutSeconds ?? startTimeoutSeconds;
    await this.#whileRunning(work, (signal) => agent.whenReady(spec.sandboxId, timeoutSeconds, signal));
    work.watch.mark('agent');
  }

  async #waitForProbe(spec: SandboxSpec, record: SandboxRecord, work: Work): Promise<void> {
    work.phases.tell('waiting_ready');
    const { readyProbe } = spec;
    if (!readyProbe) return;
    const sandbox = { address: record.address, agent: new AgentClient(record.address, spec.platformToken) };
    await this.#whileRunning(work, (signal) => whenProbeSucceeds(readyProbe, sandbox, signal));
    work.watch.mark('ready');
  }

  /** Does `act` unless the container ends before; then that is what went wrong. */
  async #whileRunning(work: Work, act: (signal: AbortSignal) => Promise<void>): Promise<void> {
    const ended = new AbortController();
    const timer = setInterval(() => {
      if (!this.#runner.isRunning(work.folder)) ended.abort();
    }, endCheckIntervalMs);
    try {
      await act(AbortSignal.any([work.signal, ended.signal]));
    } catch (error) {
      if (!ended.signal.aborted || work.signal.aborted) throw error;
      const exit = await readExit(work.folder, path.basename(work.folder));
      throw new DriverError('runtime_exited', 'The sandbox ended before it was ready', {
        cause: error,
        exit: exit ?? undefined,
      });
    } finally {
      clearInterval(timer);
    }
  }

  async #thaw(spec: SandboxSpec, record: SandboxRecord, work: Work): Promise<SandboxPlace> {
    await this.#cgroups.thaw(record.instance);
    work.watch.mark('thawed');
    const agent = new AgentClient(record.address, spec.platformToken);
    try {
      const timeoutSeconds = Math.min(
        thawTimeoutSeconds,
        this.#options.agentStartTimeoutSeconds ?? startTimeoutSeconds,
      );
      await this.#whileRunning(work, (signal) => agent.whenReady(spec.sandboxId, timeoutSeconds, signal));
      await work.phases.finish();
    } catch (error) {
      if (this.#runner.isRunning(work.folder)) {
        await this.#cgroups.freeze(record.instance, this.#options.pauseTimeoutSeconds ?? 10);
      }
      if (!(error instanceof AgentError)) throw error;
      throw new DriverError('not_ready', "The sandbox's agent does not answer", { cause: error, retryable: true });
    }
    return this.#placeOf(record, 'thaw');
  }

  async #stopNow(sandboxId: string): Promise<void> {
    const folder = this.#folderOf(sandboxId);
    this.#watched.delete(sandboxId);
    const record = await readRecord(folder);
    if (!record) return;
    if (record.phase !== 'stopped') await writeRecord(folder, { ...record, phase: 'stopped' });
    await this.#end(record);
  }

  #end(record: SandboxRecord): Promise<void> {
    return this.#runner.end(this.#folderOf(record.sandboxId), record.instance, record.address);
  }

  #lookForExits(): void {
    for (const [sandboxId, shim] of this.#watched) {
      if (shim && isAlive(shim)) continue;
      this.#watched.delete(sandboxId);
      this.#lock
        .run(sandboxId, () => this.#reportExit(sandboxId))
        .catch((error) => {
          this.#watched.set(sandboxId, undefined);
          this.#options.logger.error({ err: error, sandboxId }, 'the end of a sandbox could not be handled');
        });
    }
  }

  async #reportExit(sandboxId: string): Promise<void> {
    const folder = this.#folderOf(sandboxId);
    const record = await readRecord(folder);
    if (record?.phase !== 'ready' || record.exitReported || this.#runner.isRunning(folder)) return;
    await this.#end(record);
    const exit = (await readExit(folder, sandboxId)) ?? (await unrecordedExit(folder, sandboxId));
    if (this.#listeners.length === 0) {
      this.#watched.set(sandboxId, undefined);
      return;
    }
    for (const listener of this.#listeners) listener(exit);
    await writeRecord(folder, { ...record, exitReported: true });
  }

  /** Moves the folder aside first, so that a deletion that is cut short leaves no half a sandbox. */
  async #deleteFolder(folder: string): Promise<void> {
    const grave = await mkdtemp(path.join(this.#copy.trashFolder, 'sandbox-'));
    try {
      await rename(folder, path.join(grave, 'folder'));
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    } finally {
      await rm(grave, { recursive: true, force: true });
    }
  }

  async #imageOf(reference: string, signal: AbortSignal): Promise<UnpackedImage> {
    const { cacheDir, registryInsecureHttp, baseImage } = this.#options;
    try {
      if (reference !== baseImageName) return await ensureImage({ cacheDir, reference, registryInsecureHttp, signal });
      return await ensureBaseImage({ cacheDir, reference: baseImage, registryInsecureHttp, signal });
    } catch (error) {
      throw imageFailure(error, signal);
    }
  }

  #placeOf(record: SandboxRecord, from: SandboxPlace['from']): SandboxPlace {
    return { address: record.address, agentPort, from };
  }

  #folderOf(sandboxId: string): string {
    if (!/^[A-Za-z0-9][A-Za-z0-9_-]{0,62}$/.test(sandboxId)) throw new TypeError(`${sandboxId} names no sandbox`);
    return path.join(this.#copy.sandboxesFolder, sandboxId);
  }
}

/** What a create or resume carries along. */
interface Work {
  folder: string;
  phases: PhaseTeller;
  watch: Stopwatch;
  signal: AbortSignal;
}

/** The image speaks first, the sandbox last. */
function agentInit(spec: SandboxSpec, image: UnpackedImage): AgentInit {
  return {
    sandboxId: spec.sandboxId,
    accessToken: spec.accessToken,
    env: { ...image.config.env, ...spec.env },
    command: spec.command,
    ...(image.config.workingDir === null ? {} : { cwd: image.config.workingDir }),
    ...(image.config.user === null ? {} : { user: image.config.user }),
  };
}
