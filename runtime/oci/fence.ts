import { spawn } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { rename, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import type { Cgroups } from './cgroups.ts';
import type { Copy } from './copy.ts';

const guardFile = path.join(import.meta.dirname, 'lease-guard.pl');

/** Lets a host's sandboxes run only as long as the host may have them. */
export interface HostFence {
  /** They may run until then, by `uptimeSeconds`. A process of its own sees to it, also after this one's end. */
  keepOpenUntil(uptimeSeconds: number): Promise<void>;
  /** Whether all of them stand still. */
  readonly isClosed: boolean;
  /** Lets them go on; those that are paused stay so. */
  open(): Promise<void>;
}

/** Seconds since the machine booted, those in which it slept included. */
export function uptimeSeconds(): number {
  return Number(readFileSync('/proc/uptime', 'latin1').split(' ')[0]);
}

/**
 * The fence of one copy: the freezer of the control group above all its sandboxes. That is one write for any number of
 * them, and leaves alone which of them are paused.
 */
export class Fence implements HostFence {
  readonly #cgroups: Cgroups;
  readonly #leaseFile: string;

  constructor(copy: Copy, cgroups: Cgroups) {
    this.#cgroups = cgroups;
    this.#leaseFile = path.join(copy.folder, 'lease');
  }

  async keepOpenUntil(uptimeSeconds: number): Promise<void> {
    // Not synced: it counts from this machine's start, so a power cut ends its meaning, and a slow disk must not end it.
    await writeFile(`${this.#leaseFile}.new`, `${uptimeSeconds}\n`, { mode: 0o600 });
    await rename(`${this.#leaseFile}.new`, this.#leaseFile);
    // One that runs already keeps its lock, and the new one ends at once.
    const { file, text } = this.#cgroups.fence;
    const guard = spawn('perl', [guardFile, this.#leaseFile, file, text, ...this.#cgroups.shimFolders()], {
      env: { PATH: process.env.PATH, LC_ALL: 'C' },
      detached: true,
      stdio: 'ignore',
    });
    await new Promise<void>((resolve, reject) => guard.once('spawn', resolve).once('error', reject));
    guard.unref();
  }

  get isClosed(): boolean {
    return this.#cgroups.isFenced;
  }

  open(): Promise<void> {
    return this.#cgroups.liftFence();
  }

  /** Ends the guard, within a second. */
  async teardown(): Promise<void> {
    if (existsSync(this.#leaseFile)) await rm(this.#leaseFile);
    await rm(`${this.#leaseFile}.lock`, { force: true });
  }
}
