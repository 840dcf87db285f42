import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { open, rename, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { readDiskSpace } from '../disk/disk-space.ts';
import { isOutOfSpace } from '../disk/out-of-space.ts';
import type { DiskFence } from '../host-driver.ts';
import type { Cgroups } from './cgroups.ts';
import type { Copy } from './copy.ts';

const guardFile = path.join(import.meta.dirname, 'lease-guard.pl');

/** The length is fixed, so that the file can be overwritten in place on a full disk. */
const leaseLength = 63;
const statfsSystemCall = process.arch === 'arm64' ? 43 : 137;

/**
 * The fence of one copy: the freezer of the control group above all of its sandboxes. One write freezes any number of
 * sandboxes, and does not change which of them are paused.
 */
export class Fence implements DiskFence {
  readonly #cgroups: Cgroups;
  readonly #folder: string;
  readonly #leaseFile: string;
  /** The guard that this process has started and whose end it has not seen. */
  #guard: ChildProcess | null = null;
  #untilSeconds: number | null = null;
  #keptBytes: number;
  /**
   * The last write of the lease. Two timers write it, for the lease and for the disk, and the draft has a fixed name.
   */
  #writing: Promise<void> = Promise.resolve();

  constructor(copy: Copy, cgroups: Cgroups) {
    this.#cgroups = cgroups;
    this.#folder = copy.folder;
    this.#leaseFile = path.join(copy.folder, 'lease');
    this.#keptBytes = readDiskSpace(copy.folder).limits.reserveBytes;
  }

  async keepOpenUntil(uptimeSeconds: number): Promise<void> {
    this.#untilSeconds = uptimeSeconds;
    await this.#write();
    if (!this.#guard) await this.#startGuard();
  }

  async #startGuard(): Promise<void> {
    // If the guard of an earlier process still runs, it keeps its lock, and the new one exits at once.
    const { file, text } = this.#cgroups.freezer.fence;
    const disk = [this.#folder, String(statfsSystemCall), this.#cgroups.usageFiles('').memoryStat];
    const guard = spawn('perl', [guardFile, this.#leaseFile, file, text, ...disk, ...this.#cgroups.shimFolders()], {
      env: { PATH: process.env.PATH, LC_ALL: 'C' },
      detached: true,
      stdio: 'ignore',
    });
    this.#guard = guard;
    const onEnd = () => {
      this.#guard = null;
    };
    guard.once('exit', onEnd).once('error', onEnd);
    await new Promise<void>((resolve, reject) => guard.once('spawn', resolve).once('error', reject));
    guard.unref();
  }

  async keepFree(bytes: number): Promise<void> {
    if (bytes === this.#keptBytes) return;
    this.#keptBytes = bytes;
    if (this.#untilSeconds !== null) await this.#write();
  }

  get isClosed(): boolean {
    return this.#cgroups.freezer.isFenced;
  }

  async open(): Promise<boolean> {
    const { bytes } = readDiskSpace(this.#folder);
    if (bytes - this.#cgroups.unwrittenBytes('') < this.#keptBytes) return false;
    await this.#cgroups.freezer.liftFence();
    return true;
  }

  /** Ends the guard within a second. */
  async teardown(): Promise<void> {
    if (existsSync(this.#leaseFile)) await rm(this.#leaseFile);
    await rm(`${this.#leaseFile}.lock`, { force: true });
  }

  #write(): Promise<void> {
    const written = this.#writing.then(() => this.#replace());
    this.#writing = written.catch(() => {});
    return written;
  }

  async #replace(): Promise<void> {
    const { freeBytes, bytes } = readDiskSpace(this.#folder);
    const missingBallast = freeBytes - bytes;
    const text = `${this.#untilSeconds} ${this.#keptBytes + missingBallast}`.padEnd(leaseLength);
    try {
      // The file is not synced. Its times count from the machine's boot, so a power cut makes them meaningless. And a
      // slow disk must not delay the write.
      await writeFile(`${this.#leaseFile}.new`, `${text}\n`, { mode: 0o600 });
      await rename(`${this.#leaseFile}.new`, this.#leaseFile);
    } catch (error) {
      if (!isOutOfSpace(error)) throw error;
      // Writing the same number of bytes to the same block needs no space.
      const handle = await open(this.#leaseFile, 'r+');
      await handle.write(`${text}\n`, 0).finally(() => handle.close());
    }
  }
}
