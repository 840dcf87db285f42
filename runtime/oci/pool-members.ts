import { randomBytes } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import path from 'node:path';
import type { SandboxId } from '../../domain/ids.ts';
import type { ImageCache } from '../images/image-cache.ts';
import type { UnpackedImage } from '../images/unpacked-image.ts';
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

export interface PoolMembersParts {
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
export class PoolMembers {
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
    for (const pid of await this.#cgroups.processesOf(instance)) {
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
