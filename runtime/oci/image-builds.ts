import { existsSync, statSync } from 'node:fs';
import { mkdir, readdir, rename, rm, stat } from 'node:fs/promises';
import path from 'node:path';
import { z } from 'zod';
import { FairSemaphore } from '../../domain/fair-semaphore.ts';
import type { AccountId, SandboxId } from '../../domain/ids.ts';
import { writeFileDurably } from '../../platform/config/durable-file.ts';
import { readDocumentOrSetAside } from '../../platform/config/readable-document.ts';
import { type DiskSpace, hasSpaceToAdmit } from '../disk/disk-space.ts';
import { isOutOfSpace } from '../disk/out-of-space.ts';
import { type DiskCopy, DriverError, type ImageBuilds, type PackedImage, type PackedLayer } from '../driver.ts';
import { toOciConfig, type UnpackedImage } from '../images/image-cache.ts';
import { packLayer, UnpackableTreeError } from '../images/pack-layer.ts';
import type { Cgroups } from './cgroups.ts';
import type { Copy } from './copy.ts';
import { copyDisk, DiskCopyError } from './disk-copy.ts';
import { readPids, type SandboxRecord } from './sandbox-records.ts';

/** Packing keeps one processor busy, so only this many builds pack at once. */
const maxConcurrentPacks = 2;
/** The longest time that a copy may freeze a sandbox. After it the copy is cancelled. */
const maxFrozenSeconds = 120;
/** The part of the available memory that may be used to read a disk before its sandbox is frozen. */
const warmMemoryFraction = 0.25;
/** If a build was not discarded for this long, its workflow is lost. */
const forgottenMs = 24 * 3600 * 1000;

const layerSchema = z.object({
  file: z.string(),
  mediaType: z.string(),
  digest: z.string(),
  size: z.number(),
  diffId: z.string(),
});

/** The methods of the driver that builds need. */
interface BuildHost {
  copy: Copy;
  cgroups: Cgroups;
  sandboxFolder(sandboxId: SandboxId): string;
  /** The record of a sandbox with processes. @throws {DriverError} `sandbox_absent` */
  findRecord(sandboxId: SandboxId): SandboxRecord;
  /** Runs work on a sandbox alone. An end of the sandbox cancels it. */
  alone<Result>(
    sandboxId: SandboxId,
    signal: AbortSignal | undefined,
    work: (signal: AbortSignal) => Promise<Result>,
  ): Promise<Result>;
  /** @throws {DriverError} `pause_failed` */
  freeze(record: SandboxRecord, signal: AbortSignal): Promise<void>;
  getImage(reference: string, signal: AbortSignal): Promise<UnpackedImage>;
  diskSpace(): DiskSpace;
  availableMemoryBytes(): number;
}

/** Makes copies of disks, and layers of them, in the folder `builds`. */
export class LocalImageBuilds implements ImageBuilds {
  readonly #host: BuildHost;
  readonly #packs = new FairSemaphore(maxConcurrentPacks, 1);

  constructor(host: BuildHost) {
    this.#host = host;
  }

  /** Removes the files of builds whose workflows ended long ago. */
  async open(): Promise<void> {
    const { buildsFolder } = this.#host.copy;
    for (const name of await readdir(buildsFolder)) {
      const folder = path.join(buildsFolder, name);
      if (Date.now() - (await stat(folder)).mtimeMs > forgottenMs) await rm(folder, { recursive: true, force: true });
    }
  }

  async copyDisk(buildId: string, sandboxId: SandboxId, callersSignal?: AbortSignal): Promise<DiskCopy> {
    const folder = this.#buildFolder(buildId);
    const target = path.join(folder, 'disk.ext4');
    // Packing removes the copy.
    if ([target, noteIn(folder, 'changes')].some((file) => existsSync(file))) return { frozenMs: 0, bytes: 0 };
    await mkdir(folder, { recursive: true, mode: 0o700 });
    try {
      return await this.#host.alone(sandboxId, callersSignal, async (signal) => {
        const copied = await this.#copyNow(sandboxId, `${target}.new`, signal);
        await rename(`${target}.new`, target);
        return copied;
      });
    } catch (error) {
      await rm(`${target}.new`, { force: true });
      throw copyFailure(error);
    }
  }

  async #copyNow(sandboxId: SandboxId, target: string, signal: AbortSignal): Promise<DiskCopy> {
    const { cgroups } = this.#host;
    const record = this.#host.findRecord(sandboxId);
    const folder = this.#host.sandboxFolder(sandboxId);
    const disk = path.join(folder, 'disk.ext4');
    this.#requireSpace(2 * statSync(disk).blocks * 512);
    const staysFrozen = cgroups.freezer.isFrozen(record.instance);
    let limitAgain: (() => Promise<void>) | undefined;
    try {
      return await copyDisk({
        mounted: `/proc/${readPids(folder)!.shim.pid}/root/mnt/disk`,
        disk,
        target,
        warmBytes: Math.floor(this.#host.availableMemoryBytes() * warmMemoryFraction),
        seconds: maxFrozenSeconds,
        thaw: {
          files: staysFrozen ? [] : await cgroups.freezer.listFiles(record.instance),
          text: cgroups.freezer.thawedText,
        },
        groups: cgroups.shimFolders(),
        freeze: async () => {
          if (!staysFrozen) await this.#host.freeze(record, signal);
          // What is still to be written must not keep it frozen for longer.
          limitAgain = await cgroups.rates.lift(record.instance);
        },
        signal,
      });
    } finally {
      await limitAgain?.();
      // Normally the copying program does this, but it may have been killed.
      if (!staysFrozen) await cgroups.freezer.thaw(record.instance);
    }
  }

  async packChanges(buildId: string, accountId: AccountId, signal?: AbortSignal): Promise<PackedLayer> {
    const folder = this.#buildFolder(buildId);
    const disk = path.join(folder, 'disk.ext4');
    return this.#packOnce(folder, 'changes', accountId, signal, async (file) => {
      if (!existsSync(disk)) throw new DriverError('snapshot_failed', 'The copy of the disk is gone from this host');
      const layer = await packLayer({ folder: 'upper', changes: true, disk }, file, signal);
      await rm(disk);
      return layer;
    });
  }

  async packImage(buildId: string, image: string, accountId: AccountId, signal?: AbortSignal): Promise<PackedImage> {
    const { rootfs, config } = await this.#host.getImage(image, signal ?? never);
    const folder = this.#buildFolder(buildId);
    await mkdir(folder, { recursive: true, mode: 0o700 });
    const layer = await this.#packOnce(folder, 'image', accountId, signal, (file) =>
      packLayer({ folder: rootfs, changes: false }, file, signal),
    );
    return { layer, config: toOciConfig(config) };
  }

  async imageDigest(image: string, signal?: AbortSignal): Promise<string> {
    return (await this.#host.getImage(image, signal ?? never)).digest;
  }

  async discard(buildId: string): Promise<void> {
    await rm(this.#buildFolder(buildId), { recursive: true, force: true });
  }

  /** The layer that an earlier try has packed, or a new one. */
  async #packOnce(
    folder: string,
    name: 'changes' | 'image',
    accountId: AccountId,
    signal: AbortSignal | undefined,
    pack: (file: string) => Promise<PackedLayer>,
  ): Promise<PackedLayer> {
    const note = noteIn(folder, name);
    const made = readDocumentOrSetAside(note, layerSchema);
    if (made && existsSync(made.file)) return made;
    const permit = await this.#packs.take(accountId, signal ?? never);
    try {
      const layer = await pack(path.join(folder, `${name}.layer`));
      await writeFileDurably(note, JSON.stringify(layer));
      return layer;
    } catch (error) {
      signal?.throwIfAborted();
      throw packFailure(error);
    } finally {
      permit.release();
    }
  }

  #requireSpace(bytes: number): void {
    const space = this.#host.diskSpace();
    if (hasSpaceToAdmit(space) && space.bytes - bytes >= space.limits.admitBytes) return;
    throw new DriverError('host_disk_full', "The host's disk has no room for a copy of the sandbox's", {
      retryable: true,
    });
  }

  #buildFolder(buildId: string): string {
    if (!/^[a-z]+-[A-Za-z0-9]+$/.test(buildId)) throw new Error(`${buildId} names no build`);
    return path.join(this.#host.copy.buildsFolder, buildId);
  }
}

const noteIn = (folder: string, name: 'changes' | 'image') => path.join(folder, `${name}.json`);
const never = new AbortController().signal;

function copyFailure(error: unknown): unknown {
  if (isOutOfSpace(error)) {
    return new DriverError('host_disk_full', "The host's disk is full", { cause: error, retryable: true });
  }
  if (!(error instanceof DiskCopyError)) return error;
  return new DriverError('snapshot_failed', "The sandbox's disk could not be copied", {
    cause: error,
    retryable: true,
  });
}

function packFailure(error: unknown): unknown {
  if (isOutOfSpace(error)) {
    return new DriverError('host_disk_full', "The host's disk is full", { cause: error, retryable: true });
  }
  if (!(error instanceof UnpackableTreeError)) return error;
  return new DriverError('changes_not_packable', `The sandbox has what no image can hold: ${error.message}`, {
    cause: error,
  });
}
