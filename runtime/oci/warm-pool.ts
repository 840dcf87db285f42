import { randomBytes } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';
import type { SandboxId } from '../../domain/ids.ts';
import { writeFileDurably } from '../../platform/config/durable-file.ts';
import { readDocumentOrSetAside } from '../../platform/config/readable-document.ts';
import { isOutOfSpace } from '../disk/out-of-space.ts';
import type { DriverLogger } from '../driver-logger.ts';
import type { ImageCache } from '../images/image-cache.ts';
import type { UnpackedImage } from '../images/unpacked-image.ts';
import { PoolDemand } from '../pool-demand.ts';
import { isAlive, isKilled } from '../process/process-identity.ts';
import { until } from '../process/until.ts';
import type { Cgroups } from './cgroups.ts';
import type { ContainerRunner } from './container-runner.ts';
import type { Copy } from './copy.ts';
import type { Boot } from './launch.ts';
import type { SandboxConnection, SandboxNetwork } from './network.ts';
import { readAgent, readPids, type SandboxRecord, writeRecord } from './sandbox-folder.ts';

/** A frozen sandbox without an id. Its agent waits for its boot document. */
export interface PoolMember {
  instance: string;
  folder: string;
  image: UnpackedImage;
  storageGb: number;
  connection: SandboxConnection;
  boot: Boot;
  initPid: number;
  shimPid: number;
}

/** A member starts with these limits. A claim sets the limits of the sandbox. */
const memberLimits = { cpuCount: 2, memoryMb: 512, background: true };
const firstStorageGb = 10;
const rememberedSizes = 16;
const bootTimeoutSeconds = 30;
/**
 * A refill begins when there was no create for this long, because it would take processor time from the next create.
 */
const calmMs = 500;
/** The longest time that a refill waits for such a moment, because a host with constant creates needs its pool most. */
const calmPatienceMs = 5000;
/** How long each new member waits for the creates in progress. */
const busyPatienceSeconds = 1;
const retryMs = 10_000;
/** The interval at which the demand is computed again, so that an unused pool shrinks. */
const resizeMs = 30_000;
const readSystemCall = process.arch === 'arm64' ? 63 : 0;

/**
 * Frozen sandboxes of one image, already started as far as possible without an id, so that a claim does not have to
 * start Node. A mounted disk cannot grow, so members have the disk size that was requested most often recently. Their
 * number follows the largest recent burst of creates, so that the next burst finds enough members.
 */
export class WarmPool {
  readonly #copy: Copy;
  readonly #cgroups: Cgroups;
  readonly #network: SandboxNetwork;
  readonly #runner: ContainerRunner;
  readonly #demand: PoolDemand;
  readonly #resizing: NodeJS.Timeout;
  readonly #image: () => Promise<UnpackedImage>;
  readonly #isBusy: () => boolean;
  readonly #hasRoom: () => boolean;
  readonly #images: ImageCache;
  readonly #mayGrow: () => Promise<boolean>;
  readonly #sizesFile: string | null;
  readonly #logger: DriverLogger;
  readonly #closing = new AbortController();
  readonly #members: PoolMember[] = [];
  #askedSizes: number[] = [];
  #lastClaimMs = Number.NEGATIVE_INFINITY;
  #filling: Promise<void> | null = null;

  constructor(parts: {
    copy: Copy;
    cgroups: Cgroups;
    network: SandboxNetwork;
    runner: ContainerRunner;
    images: ImageCache;
    /** The minimum number of members, and the maximum after bursts of creates. */
    size: { least: number; most: number };
    image: () => Promise<UnpackedImage>;
    /** Whether creates are in progress. The refill waits for them for a while. */
    isBusy: () => boolean;
    /** Whether the host has room for more members. Without room the pool does not grow. */
    hasRoom: () => boolean;
    /** Whether one more member fits into the budget of all pools. Members of other pools may be ended for it. */
    mayGrow: () => Promise<boolean>;
    /** The file that stores the requested sizes. Null: they are lost with the pool. */
    sizesFile: string | null;
    logger: DriverLogger;
  }) {
    this.#copy = parts.copy;
    this.#cgroups = parts.cgroups;
    this.#network = parts.network;
    this.#runner = parts.runner;
    this.#demand = new PoolDemand(parts.size);
    this.#image = parts.image;
    this.#isBusy = parts.isBusy;
    this.#hasRoom = parts.hasRoom;
    this.#images = parts.images;
    this.#mayGrow = parts.mayGrow;
    this.#sizesFile = parts.sizesFile;
    this.#logger = parts.logger;
    this.#resizing = setInterval(() => this.#fill(), resizeMs).unref();
  }

  /** Begins to fill the pool in the background. */
  async open(): Promise<void> {
    const known = this.#sizesFile && readDocumentOrSetAside(this.#sizesFile, z.array(z.number().positive()));
    if (known) this.#askedSizes = known;
    this.#fill();
  }

  /** The number of members that are ready. */
  get ready(): number {
    return this.#members.length;
  }

  /** Takes a fitting member. Null when there is none. The caller then owns it. */
  claim(image: UnpackedImage, storageGb: number): PoolMember | null {
    this.#askedSizes = [...this.#askedSizes, storageGb].slice(-rememberedSizes);
    this.#lastClaimMs = performance.now();
    this.#demand.note(this.#lastClaimMs);
    const fits = (member: PoolMember) => member.storageGb === storageGb && member.image.digest === image.digest;
    const at = this.#members.findIndex((member) => fits(member) && this.#isWhole(member));
    const [member] = at < 0 ? [] : this.#members.splice(at, 1);
    this.#fill();
    return member ?? null;
  }

  /** Ends every member. */
  async close(): Promise<void> {
    this.#closing.abort();
    clearInterval(this.#resizing);
    await this.#filling;
    await Promise.all(this.#members.splice(0).map((member) => this.#discard(member)));
    if (!this.#sizesFile) return;
    await writeFileDurably(this.#sizesFile, JSON.stringify(this.#askedSizes)).catch((error) => {
      // The sizes are only a hint for the next start, so a full disk is ignored.
      if (!isOutOfSpace(error)) throw error;
    });
  }

  /** Whether there was no recent create for this pool, and it has no members. */
  get isIdle(): boolean {
    return this.#members.length === 0 && this.#demand.size(performance.now()) === 0;
  }

  /** Ends one member to make room for one of another pool. @returns false when it has none */
  async giveWay(): Promise<boolean> {
    const member = this.#members.shift();
    if (member) await this.#discard(member);
    return member !== undefined;
  }

  #fill(): void {
    if (this.#filling || this.#closing.signal.aborted) return;
    this.#filling = this.#fillUp()
      .catch((error) => {
        if (!this.#closing.signal.aborted) this.#logger.warn({ err: error }, 'the warm pool could not be filled');
      })
      .finally(() => {
        this.#filling = null;
      });
  }

  async #fillUp(): Promise<void> {
    const { signal } = this.#closing;
    const calmUntilMs = performance.now() + calmPatienceMs;
    while (!signal.aborted) {
      const image = await this.#image();
      const storageGb = this.#wantedSize();
      const fits = (member: PoolMember) =>
        member.storageGb === storageGb && member.image.digest === image.digest && this.#isWhole(member);
      const size = this.#demand.size(performance.now());
      if (this.#members.length > size) {
        const stale = this.#members.findIndex((member) => !fits(member));
        await this.#discard(this.#members.splice(Math.max(0, stale), 1)[0]!);
        continue;
      }
      if (this.#members.filter(fits).length >= size || !this.#hasRoom()) return;
      await this.#waitForCalm(calmUntilMs);
      if (!(await this.#mayGrow())) return;
      const stale = this.#members.findIndex((member) => !fits(member));
      if (stale >= 0 && this.#members.length >= size) await this.#discard(this.#members.splice(stale, 1)[0]!);
      try {
        this.#members.push(await this.#make(image, storageGb));
      } catch (error) {
        if (signal.aborted) return;
        this.#logger.warn({ err: error }, 'a member of the warm pool could not be made; trying again later');
        await sleep(retryMs, undefined, { signal });
      }
    }
  }

  /**
   * Waits until no create is in progress and there was none for a moment. An empty pool only waits for those in
   * progress.
   */
  async #waitForCalm(lastMs: number): Promise<void> {
    const { signal } = this.#closing;
    const isCalm = () => {
      const nowMs = performance.now();
      return nowMs - this.#lastClaimMs >= calmMs || nowMs >= lastMs || this.#members.length === 0;
    };
    await until(isCalm, { timeoutSeconds: calmPatienceMs / 1000, everyMs: 50, signal });
    await until(() => !this.#isBusy(), { timeoutSeconds: busyPatienceSeconds, everyMs: 50, signal });
  }

  /** Whether the member and its agent run. */
  #isWhole({ folder }: PoolMember): boolean {
    const agent = readAgent(folder);
    return this.#runner.isRunning(folder) && agent !== null && isAlive(agent) && !isKilled(agent.pid);
  }

  #wantedSize(): number {
    const counts = new Map<number, number>();
    for (const size of this.#askedSizes) counts.set(size, (counts.get(size) ?? 0) + 1);
    // Of two sizes with equally many requests, the later one is taken.
    const byCount = [...counts].sort(
      ([a, timesA], [b, timesB]) =>
        timesB - timesA || this.#askedSizes.lastIndexOf(b) - this.#askedSizes.lastIndexOf(a),
    );
    return byCount[0]?.[0] ?? firstStorageGb;
  }

  async #make(image: UnpackedImage, storageGb: number): Promise<PoolMember> {
    const { signal } = this.#closing;
    const instance = `pool-${randomBytes(8).toString('hex')}`;
    const folder = path.join(this.#copy.poolFolder, instance);
    const connection = this.#network.take(instance, false);
    const { address } = connection;
    // The member has no sandbox yet. Until one claims it, its record contains the instance's name.
    const sandboxId = instance as SandboxId;
    const record: SandboxRecord = { sandboxId, instance, phase: 'starting', address, exitReported: true };
    try {
      await writeRecord(folder, record);
      await this.#images.keepFor(image, folder);
      const boot = await this.#runner.start({
        folder,
        instance,
        hostname: 'sandbox',
        image,
        limits: memberLimits,
        storageGb,
        connection,
        prepares: true,
        signal,
      });
      const waiting = () => this.#agentWaits(instance, folder);
      if (!(await until(waiting, { timeoutSeconds: bootTimeoutSeconds, everyMs: 10, signal }))) {
        throw new Error('the agent does not come to read its boot document');
      }
      if (!(await this.#cgroups.freeze(instance, bootTimeoutSeconds))) throw new Error('it cannot be frozen');
      const pids = readPids(folder)!;
      return { instance, folder, image, storageGb, connection, boot, initPid: pids.initPid, shimPid: pids.shim.pid };
    } catch (error) {
      await this.#remove(folder, instance, connection.address);
      throw error;
    }
  }

  /** Whether the agent blocks in a read of its standard input, which means that it is ready to be frozen. */
  async #agentWaits(instance: string, folder: string): Promise<boolean> {
    if (!this.#runner.isRunning(folder)) throw new Error('it ended');
    const initPid = readPids(folder)?.initPid;
    for (const pid of await this.#cgroups.processesOf(instance)) {
      const file = `/proc/${pid}/syscall`;
      if (pid !== initPid && existsSync(file) && readFileSync(file, 'latin1').startsWith(`${readSystemCall} 0x0 `)) {
        return true;
      }
    }
    return false;
  }

  #discard(member: PoolMember): Promise<void> {
    return this.#remove(member.folder, member.instance, member.connection.address);
  }

  async #remove(folder: string, instance: string, address: string): Promise<void> {
    await this.#runner.end(folder, instance, address);
    await rm(folder, { recursive: true, force: true });
  }
}
