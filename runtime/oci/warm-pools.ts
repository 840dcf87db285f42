import { randomBytes } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { z } from 'zod';
import type { SandboxId } from '../../domain/ids.ts';
import { writeFileDurably } from '../../platform/config/durable-file.ts';
import { readDocumentOrSetAside } from '../../platform/config/readable-document.ts';
import { isOutOfSpace } from '../disk/out-of-space.ts';
import type { DriverLogger } from '../driver-logger.ts';
import type { ImageCache, UnpackedImage } from '../images/image-cache.ts';
import { isAlive, isKilled } from '../process/process-identity.ts';
import { until } from '../process/until.ts';
import { WarmPool } from '../warm-pool.ts';
import type { Cgroups } from './cgroups.ts';
import type { Boot, ContainerRunner } from './container-runner.ts';
import type { Copy } from './copy.ts';
import type { SandboxConnection, SandboxNetwork } from './network.ts';
import { readAgent, readPids, type SandboxRecord, writeRecord } from './sandbox-records.ts';

/** The memory of a frozen member: Node with the agent, and the kernel's memory for a container. */
const memberMemoryMb = 72;
/** The part of the machine's memory that frozen members may use if there is no setting. */
const memoryFraction = 1 / 16;
/** Members are made one at a time, because their starts take processor time from creates. */
const maxConcurrentRefills = 1;
const firstStorageGb = 10;
const rememberedSizes = 16;

/** What the creates from one template asked for. */
interface Asked {
  /** The digest of its image. Null: no create has come. */
  digest: string | null;
  /** The sizes of the last disks, oldest first. */
  storageGb: number[];
}

/**
 * Frozen sandboxes of the recently used templates, by reference. A mounted disk cannot grow, so members have the disk
 * size that was requested most often recently.
 */
export class WarmPools {
  readonly #members: PoolMembers;
  readonly #pool: WarmPool<{ image: string }, PoolMember>;
  readonly #base: string;
  /** The file that stores the requested sizes of the base image. */
  readonly #sizesFile: string;
  readonly #asked = new Map<string, Asked>();

  constructor(
    parts: PoolMembersParts & {
      base: string;
      /** The minimum number of members of the base image, and the maximum of each template. */
      size: { least: number; most: number };
      /** The memory for all members. Undefined: a sixteenth of the machine's memory. */
      memoryMb?: number | undefined;
      getImage: (reference: string, signal: AbortSignal) => Promise<UnpackedImage>;
      isBusy: () => boolean;
      /** Whether the host has capacity for more members. */
      hasCapacity: () => boolean;
      logger: DriverLogger;
    },
  ) {
    const { base, size, memoryMb, getImage, isBusy, hasCapacity, logger } = parts;
    const members = new PoolMembers(parts);
    this.#members = members;
    this.#base = base;
    this.#sizesFile = path.join(parts.copy.folder, 'pool.json');
    this.#pool = new WarmPool<{ image: string }, PoolMember>({
      make: async ({ image }, signal) =>
        members.make(await getImage(image, signal), mostFrequent(this.#findAsked(image).storageGb), signal),
      remove: (member) => members.remove(member),
      isStale: (member, { image }) => {
        const { digest, storageGb } = this.#findAsked(image);
        const isOfAsked =
          member.storageGb === mostFrequent(storageGb) && member.image.digest === (digest ?? member.image.digest);
        return !isOfAsked || !members.isIntact(member);
      },
      maxConcurrentRefills,
      toKey: ({ image }) => image,
      base: { image: base },
      size,
      budgetMb: () => memoryMb ?? (os.totalmem() / 1024 / 1024) * memoryFraction,
      toMemoryMb: () => memberMemoryMb,
      hasCapacity,
      isBusy,
      logger,
    });
  }

  open(): void {
    const storageGb = readDocumentOrSetAside(this.#sizesFile, z.array(z.number().positive()));
    if (storageGb) this.#asked.set(this.#base, { digest: null, storageGb });
    this.#pool.open();
  }

  /** The number of members that are ready. */
  get ready(): number {
    return this.#pool.ready();
  }

  /** Takes a fitting member. Null when there is none. The caller then owns it. */
  claim(reference: string, image: UnpackedImage, storageGb: number): PoolMember | null {
    const { digest } = image;
    const sizes = [...this.#findAsked(reference).storageGb, storageGb].slice(-rememberedSizes);
    this.#asked.set(reference, { digest, storageGb: sizes });
    const fits = (member: PoolMember) =>
      member.storageGb === storageGb && member.image.digest === digest && this.#members.isIntact(member);
    const member = this.#pool.claim({ image: reference }, fits);
    const kept = [this.#base, ...this.#pool.images];
    for (const each of this.#asked.keys()) if (!kept.includes(each)) this.#asked.delete(each);
    return member;
  }

  /** References of templates with members, except the base image's. */
  get references(): string[] {
    return this.#pool.images;
  }

  /** Ends the members of a deleted template. */
  drop(reference: string): Promise<void> {
    return this.#pool.drop(reference);
  }

  async close(): Promise<void> {
    await this.#pool.close();
    await writeFileDurably(this.#sizesFile, JSON.stringify(this.#findAsked(this.#base).storageGb)).catch((error) => {
      // The sizes are only a hint for the next start, so a full disk is ignored.
      if (!isOutOfSpace(error)) throw error;
    });
  }

  #findAsked(reference: string): Asked {
    return this.#asked.get(reference) ?? { digest: null, storageGb: [] };
  }
}

/** Of two sizes with equally many requests, the later one is taken. */
function mostFrequent(sizes: readonly number[]): number {
  const counts = new Map<number, number>();
  for (const size of sizes) counts.set(size, (counts.get(size) ?? 0) + 1);
  const byCount = [...counts].sort(
    ([a, timesA], [b, timesB]) => timesB - timesA || sizes.lastIndexOf(b) - sizes.lastIndexOf(a),
  );
  return byCount[0]?.[0] ?? firstStorageGb;
}

/** A frozen sandbox without an id. Its agent waits for its boot document. */
export interface PoolMember {
  /** The name of its container. */
  name: string;
  folder: string;
  image: UnpackedImage;
  storageGb: number;
  connection: SandboxConnection;
  boot: Boot;
  initPid: number;
  shimPid: number;
}

interface PoolMembersParts {
  copy: Copy;
  cgroups: Cgroups;
  network: SandboxNetwork;
  runner: ContainerRunner;
  images: ImageCache;
}

/** A member starts with these limits. A claim sets the limits of the sandbox. */
const memberLimits = { cpuCount: 2, memoryMb: 512, background: true };
const bootTimeoutSeconds = 30;
const readSystemCall = process.arch === 'arm64' ? 63 : 0;

/**
 * Makes and ends frozen sandboxes that are already started as far as possible without an id, so that a claim does not
 * have to start Node.
 */
class PoolMembers {
  readonly #copy: Copy;
  readonly #cgroups: Cgroups;
  readonly #network: SandboxNetwork;
  readonly #runner: ContainerRunner;
  readonly #images: ImageCache;

  constructor(parts: PoolMembersParts) {
    this.#copy = parts.copy;
    this.#cgroups = parts.cgroups;
    this.#network = parts.network;
    this.#runner = parts.runner;
    this.#images = parts.images;
  }

  /** Whether the member and its agent run. */
  isIntact({ folder }: PoolMember): boolean {
    const agent = readAgent(folder);
    return this.#runner.isRunning(folder) && agent !== null && isAlive(agent) && !isKilled(agent.pid);
  }

  async make(image: UnpackedImage, storageGb: number, signal: AbortSignal): Promise<PoolMember> {
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
      if (!(await this.#cgroups.freezer.freeze(instance, bootTimeoutSeconds))) throw new Error('it cannot be frozen');
      const { initPid, shim } = readPids(folder)!;
      return { name: instance, folder, image, storageGb, connection, boot, initPid, shimPid: shim.pid };
    } catch (error) {
      await this.#remove(folder, instance, connection.address);
      throw error;
    }
  }

  /** Whether the agent blocks in a read of its standard input, which means that it is ready to be frozen. */
  async #agentWaits(instance: string, folder: string): Promise<boolean> {
    if (!this.#runner.isRunning(folder)) throw new Error('it ended');
    const initPid = readPids(folder)?.initPid;
    for (const pid of await this.#cgroups.readProcesses(instance)) {
      const file = `/proc/${pid}/syscall`;
      if (pid !== initPid && existsSync(file) && readFileSync(file, 'latin1').startsWith(`${readSystemCall} 0x0 `)) {
        return true;
      }
    }
    return false;
  }

  remove({ folder, name, connection }: PoolMember): Promise<void> {
    return this.#remove(folder, name, connection.address);
  }

  async #remove(folder: string, instance: string, address: string): Promise<void> {
    await this.#runner.end(folder, instance, address);
    await rm(folder, { recursive: true, force: true });
  }
}
