import { rename, rm, writeFile } from 'node:fs/promises';
import os from 'node:os';
import { FairSemaphore } from '../../domain/fair-semaphore.ts';
import type { MountSlot } from '../../domain/sandboxes/object-storage.ts';
import { requireHostDisk } from '../disk/disk-space.ts';
import { type CreatePhase, DriverError, type SandboxPlace, type SandboxSpec } from '../driver.ts';
import type { ImageCache, UnpackedImage } from '../images/image-cache.ts';
import { AgentClient, AgentError, type AgentInit } from '../sandbox-agent/agent-client.ts';
import { whenReady } from '../sandbox-agent/ready-probe.ts';
import { startAgentAgain } from './agent-socket.ts';
import type { Cgroups } from './cgroups.ts';
import type { Boot, ContainerRunner } from './container-runner.ts';
import type { Copy } from './copy.ts';
import { setHostname } from './hostname.ts';
import type { SandboxMounts } from './mounts/sandbox-mounts.ts';
import type { SandboxNetwork } from './network.ts';
import { sizedFileTexts } from './own-files.ts';
import {
  hasDisk,
  readExit,
  readPids,
  replaceRecord,
  type SandboxRecord,
  type SandboxRecords,
} from './sandbox-records.ts';
import type { PoolMember, WarmPools } from './warm-pools.ts';

/** The state of one create or resume. */
export interface Work {
  spec: SandboxSpec;
  folder: string;
  onPhase: (phase: CreatePhase) => void;
  watch: Stopwatch;
  signal: AbortSignal;
  /** Its mounts, after they are made. */
  slots?: MountSlot[];
}

/** A sandbox whose agent answers. */
interface Begun {
  record: SandboxRecord;
  /** Resolves when its record is on the disk. */
  kept: Promise<void>;
}

export interface StartTimeouts {
  agentStartSeconds: number;
  thawSeconds: number;
  pauseSeconds: number;
}

const endCheckIntervalMs = 50;
const notAnswering =
  "The sandbox's agent does not answer, so the sandbox stays paused with its memory. Resume it again, or start it again on its disk with POST /v1/sandboxes/{sandbox_id}/restart";
const cancelledFreezeSeconds = 1;
/** Longer than an agent takes to start on a busy host. After this time, a start only waits and uses no processor. */
const busyStartMs = 3000;
const maxConcurrentStarts = 2 * os.availableParallelism();
/** The weight of the newest cold start in their mean. */
const newestStartPart = 0.2;

/** Starts sandboxes until they are ready: from an image, a disk, a pool member or the freezer. */
export class SandboxStarter {
  readonly #copy: Copy;
  readonly #cgroups: Cgroups;
  readonly #network: SandboxNetwork;
  readonly #runner: ContainerRunner;
  readonly #mounts: SandboxMounts;
  readonly #records: SandboxRecords;
  readonly #timeouts: StartTimeouts;
  readonly #images: ImageCache;
  readonly #getImage: (reference: string, signal: AbortSignal) => Promise<UnpackedImage>;
  /**
   * A cold start uses a whole processor, so too many at once would delay all of them. Half of the permits are for other
   * accounts than the one with the most starts.
   */
  readonly #coldStarts = new FairSemaphore(maxConcurrentStarts, maxConcurrentStarts / 2);
  /** The mean time for which a cold start had its permit; recent starts count more. Null: there was none. */
  #coldStartSeconds: number | null = null;

  constructor(parts: {
    copy: Copy;
    cgroups: Cgroups;
    network: SandboxNetwork;
    runner: ContainerRunner;
    mounts: SandboxMounts;
    records: SandboxRecords;
    timeouts: StartTimeouts;
    images: ImageCache;
    getImage: (reference: string, signal: AbortSignal) => Promise<UnpackedImage>;
  }) {
    this.#copy = parts.copy;
    this.#cgroups = parts.cgroups;
    this.#network = parts.network;
    this.#runner = parts.runner;
    this.#mounts = parts.mounts;
    this.#records = parts.records;
    this.#timeouts = parts.timeouts;
    this.#images = parts.images;
    this.#getImage = parts.getImage;
  }

  /**
   * Starts the processes of a sandbox and waits until it is ready.
   * @param before the record of an earlier run, or of an interrupted one
   * @param pools the pools that a member may be taken from; null: there are none
   * @throws the failure, after which no process runs
   */
  async start(
    work: Work,
    before: SandboxRecord | null,
    pools: WarmPools | null,
  ): Promise<{ record: SandboxRecord; from: SandboxPlace['from'] }> {
    const { spec, folder, onPhase, watch, signal } = work;
    onPhase('deploying');
    requireHostDisk(this.#copy.folder);
    if (before) await this.#runner.end(folder, before.instance, before.address);
    const image = await this.#getImage(spec.image, signal);
    watch.mark('image');
    const member = hasDisk(folder) ? null : (pools?.claim(spec.image, image, spec.storageGb) ?? null);
    const { record, kept } = member ? await this.#nameMember(work, member, image) : await this.#startCold(work, image);
    try {
      await this.#waitUntilReady(work, record);
      signal.throwIfAborted();
      await kept;
      return { record: await this.#records.makeReady(record), from: member ? 'pool' : 'cold' };
    } catch (error) {
      await this.#giveUp(work, record);
      throw error;
    }
  }

  /**
   * Thaws a frozen sandbox and waits for its agent.
   * @throws the failure, after which the sandbox is frozen again
   */
  async thaw(work: Work, record: SandboxRecord): Promise<void> {
    // A direct mount's s3fs cannot start while its sandbox is frozen.
    const isDirect = work.spec.storage?.direct !== undefined;
    if (!isDirect) await this.#mountFrozen(work, record);
    // The host worker may have died between the moments at which a pause lifts and sets the limits.
    await this.#runner.limitDisk(record.instance, readPids(work.folder)!.shim.pid, work.spec.diskRates);
    await this.#cgroups.freezer.thaw(record.instance);
    work.watch.mark('thawed');
    try {
      if (isDirect) await this.#mount(work, record);
      await this.#waitForAgent(work, record, this.#timeouts.thawSeconds);
    } catch (error) {
      if (this.#runner.isRunning(work.folder)) {
        // If the resume was cancelled, a stop follows and waits for this.
        const seconds = work.signal.aborted ? cancelledFreezeSeconds : this.#timeouts.pauseSeconds;
        await this.#cgroups.freezer.freeze(record.instance, seconds);
      }
      if (!(error instanceof AgentError)) throw error;
      throw new DriverError('agent_not_answering', notAnswering, { cause: error });
    }
  }

  /**
   * Restarts the agent of a running sandbox if it has ended. Everything else in the sandbox continues. The template's
   * command is not restarted.
   * @returns whether the agent had ended
   */
  async restartAgent({ spec, folder, signal }: Pick<Work, 'spec' | 'folder' | 'signal'>): Promise<boolean> {
    if (!this.#runner.isAgentGone(folder)) return false;
    const image = await this.#getImage(spec.image, signal);
    await startAgentAgain(folder, bootDocument({ ...spec, command: null, startImageCommand: false }, image), signal);
    return true;
  }

  /** The seconds by which each waiting start delays those behind it. Null: not known yet. */
  get secondsPerStart(): number | null {
    return this.#coldStartSeconds === null ? null : this.#coldStartSeconds / maxConcurrentStarts;
  }

  async #startCold(work: Work, image: UnpackedImage): Promise<Begun> {
    const { spec, folder, watch, signal } = work;
    const permit = await this.#coldStarts.take(spec.accountId, signal);
    const beganMs = performance.now();
    let waiting: NodeJS.Timeout | undefined;
    let releasedMs: number | null = null;
    try {
      signal.throwIfAborted();
      const connection = this.#network.take(spec.sandboxId, spec.allowInternetAccess);
      const record = createRecord(spec, spec.sandboxId, connection.address);
      try {
        await this.#records.write(record);
        await this.#images.keepFor(image, folder);
        const boot = await this.#runner.start({
          folder,
          instance: record.instance,
          hostname: spec.sandboxId,
          image,
          limits: spec,
          storageGb: spec.storageGb,
          ...(spec.diskRates && { diskRates: spec.diskRates }),
          connection,
          onStep: (step) => watch.mark(step),
          signal,
        });
        work.onPhase('initializing');
        // From here on the start only waits for the sandbox's storage and agent, so the permit is released.
        waiting = setTimeout(() => {
          releasedMs = performance.now();
          permit.release();
        }, busyStartMs);
        await this.#mount(work, record);
        await this.#boot(work, record, image, boot);
        const seconds = ((releasedMs ?? performance.now()) - beganMs) / 1000;
        const before = this.#coldStartSeconds ?? seconds;
        this.#coldStartSeconds = before + (seconds - before) * newestStartPart;
      } catch (error) {
        await this.#giveUp(work, record);
        throw error;
      }
      return { record, kept: Promise.resolve() };
    } finally {
      clearTimeout(waiting);
      permit.release();
    }
  }

  /** Turns a pool member into this sandbox. After the rename it counts as the sandbox's half-made start. */
  async #nameMember(work: Work, member: PoolMember, image: UnpackedImage): Promise<Begun> {
    const { spec, folder } = work;
    const { address } = member.connection;
    const record = createRecord(spec, member.name, address);
    let kept: Promise<void>;
    try {
      setHostname(member.initPid, spec.sandboxId);
      await this.#images.keepFor(image, folder);
      await replaceRecord(member.folder, record);
      await rm(folder, { recursive: true, force: true });
      await rename(member.folder, folder);
      // The disk does this beside the start of the agent.
      kept = this.#records.adopt(record);
      kept.catch(() => {});
    } catch (error) {
      await this.#runner.end(member.folder, member.name, address);
      throw error;
    }
    try {
      const { hosts, hostname } = this.#network.files(spec.sandboxId, address);
      // Only the agent has ever run in the member, so its folder contains only the files of the platform.
      const files = `/proc/${member.shimPid}/root/mnt/tail`;
      const processors = this.#cgroups.pins.choose(member.name, spec.cpuCount);
      const own = Object.entries(sizedFileTexts({ memoryMb: spec.memoryMb, processors }));
      await Promise.all([
        this.#cgroups.setLimits(member.name, { ...spec, processors }),
        this.#runner.limitDisk(member.name, member.shimPid, spec.diskRates),
        this.#network.setInternetAccess(address, spec.allowInternetAccess),
        writeFile(`${files}/hosts`, hosts),
        writeFile(`${files}/hostname`, hostname),
        ...own.map(([name, text]) => writeFile(`/proc/${member.shimPid}/root/mnt/own/${name}`, text)),
      ]);
      work.onPhase('initializing');
      await this.#mount(work, record);
      await this.#cgroups.freezer.thaw(member.name);
      work.watch.mark('claimed');
      await this.#boot(work, record, image, member.boot);
    } catch (error) {
      await this.#giveUp(work, record);
      throw error;
    }
    return { record, kept };
  }

  /** Sends the agent its boot document, and waits until the agent answers. */
  async #boot(work: Work, record: SandboxRecord, image: UnpackedImage, boot: Boot): Promise<void> {
    boot(bootDocument(work.spec, image));
    work.onPhase('waiting_ready');
    await this.#waitForAgent(work, record, this.#timeouts.agentStartSeconds);
  }

  /** New buckets are mounted, and existing mounts work again, before the sandbox's own processes continue. */
  async #mountFrozen(work: Work, record: SandboxRecord): Promise<void> {
    await this.#cgroups.freezer.thawStorage(record.instance);
    try {
      await this.#mount(work, record);
    } catch (error) {
      await this.#cgroups.freezer.freeze(record.instance, this.#timeouts.pauseSeconds);
      throw error;
    }
  }

  /** Mounts the buckets before any process of the sandbox runs, so that processes find their mounts. */
  async #mount(work: Work, record: SandboxRecord): Promise<void> {
    const { folder, spec, signal } = work;
    if (!spec.storage) return;
    const pids = readPids(folder)!;
    const { uidBase } = this.#network.createConnection(record.address, spec.allowInternetAccess);
    const { instance } = record;
    const container = { folder, instance, shimPid: pids.shim.pid, initPid: pids.initPid, uidBase };
    work.slots = await this.#mounts.apply(container, spec.storage, signal);
    work.watch.mark('mounts');
  }

  async #waitForAgent(work: Work, record: SandboxRecord, timeoutSeconds: number): Promise<void> {
    const { spec } = work;
    const agent = new AgentClient(record.address, spec.platformToken);
    await this.#whileRunning(work, record, (signal) => agent.whenReady(spec.sandboxId, timeoutSeconds, signal));
    work.watch.mark('agent');
  }

  async #waitUntilReady(work: Work, record: SandboxRecord): Promise<void> {
    const { spec } = work;
    if (!spec.readyProbe && !spec.command) return;
    const sandbox = { address: record.address, agent: new AgentClient(record.address, spec.platformToken) };
    await this.#whileRunning(work, record, (signal) => whenReady(spec, sandbox, signal));
    work.watch.mark('ready');
  }

  /**
   * Runs `act` while the container runs and, in a start, its agent runs. Their end becomes the error. An agent that
   * ended in the freezer is restarted once.
   */
  async #whileRunning(work: Work, record: SandboxRecord, act: (signal: AbortSignal) => Promise<void>): Promise<void> {
    const ended = new AbortController();
    let isRestarted = false;
    let failure: unknown;
    const timer = setInterval(() => {
      if (!this.#runner.isRunning(work.folder)) ended.abort();
      else if (!this.#runner.isAgentGone(work.folder)) return;
      else if (record.phase === 'starting') ended.abort();
      else if (!isRestarted) {
        isRestarted = true;
        this.restartAgent(work).catch((error) => {
          failure = error;
          ended.abort();
        });
      }
    }, endCheckIntervalMs);
    try {
      await act(AbortSignal.any([work.signal, ended.signal]));
    } catch (error) {
      if (!ended.signal.aborted || work.signal.aborted) throw error;
      if (failure) throw failure;
      // Only the agent ended, so no shim has recorded an exit status yet. The end of the container records it.
      await this.#runner.end(work.folder, record.instance, record.address);
      const exit = (await readExit(work.folder, record)) ?? undefined;
      throw new DriverError('runtime_exited', 'The sandbox ended before it was ready', { cause: error, exit });
    } finally {
      clearInterval(timer);
    }
  }

  async #giveUp(work: Work, record: SandboxRecord): Promise<void> {
    await this.#runner.end(work.folder, record.instance, record.address);
    await this.#records.write({ ...record, phase: 'stopped' });
  }
}

/** Measures the milliseconds from its creation to each step. */
export class Stopwatch {
  readonly steps: Record<string, number> = {};
  readonly #start = performance.now();

  mark(step: string): void {
    this.steps[step] = Math.round((performance.now() - this.#start) * 10) / 10;
  }
}

const createRecord = (
  { sandboxId, run, diskRates }: SandboxSpec,
  instance: string,
  address: string,
): SandboxRecord => ({
  sandboxId,
  ...(run !== null && { run }),
  ...(diskRates && { diskRates }),
  instance,
  phase: 'starting',
  address,
  exitReported: false,
});

function toCommand({ config: { entrypoint, cmd } }: UnpackedImage): AgentInit['command'] {
  return entrypoint.length + cmd.length > 0 ? { entrypoint, cmd } : null;
}

/** The boot document. Variables of the sandbox override those of the image. */
function bootDocument(spec: SandboxSpec, image: UnpackedImage): object {
  const init: AgentInit = {
    sandboxId: spec.sandboxId,
    accessToken: spec.accessToken,
    env: { ...image.config.env, ...spec.env },
    command: spec.command ?? (spec.startImageCommand ? toCommand(image) : null),
    ...(image.config.workingDir === null ? {} : { cwd: image.config.workingDir }),
    ...(image.config.user === null ? {} : { user: image.config.user }),
  };
  return { platformToken: spec.platformToken, init };
}
