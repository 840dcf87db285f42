import { execFileSync, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { until } from '../support/until.ts';

/** A small file system on a loop device. */
export class TightDisk {
  readonly folder: string;
  readonly #parent = fs.mkdtempSync(path.join(os.tmpdir(), 'sandbox-tight-disk-'));

  /** @param options more words for mkfs.ext4 */
  constructor(size: string, options: readonly string[] = []) {
    const file = path.join(this.#parent, 'disk');
    this.folder = path.join(this.#parent, 'mounted');
    execFileSync('truncate', ['-s', size, file]);
    execFileSync('mkfs.ext4', ['-q', '-F', ...options, file]);
    fs.mkdirSync(this.folder);
    execFileSync('mount', ['-o', 'loop', file, this.folder]);
  }

  /** Fills it, as another program would. @param leftMib that remain free */
  fill(leftMib: number): void {
    const bytes = this.freeMib() * 1024 ** 2 - leftMib * 1024 ** 2;
    if (bytes > 0) execFileSync('fallocate', ['-l', String(bytes), path.join(this.folder, 'fill')]);
  }

  /** @param left inodes that remain free */
  fillInodes(left: number): void {
    const folder = path.join(this.folder, 'fill-inodes');
    fs.mkdirSync(folder, { recursive: true });
    for (let number = fs.statfsSync(this.folder).ffree - left; number > 0; number -= 1) {
      fs.writeFileSync(path.join(folder, String(number)), '');
    }
  }

  empty(): void {
    for (const name of ['fill', 'fill-inodes']) {
      fs.rmSync(path.join(this.folder, name), { recursive: true, force: true });
    }
  }

  freeMib(): number {
    const { bavail, bsize } = fs.statfsSync(this.folder);
    return Math.floor((bavail * bsize) / 1024 ** 2);
  }

  get freeInodes(): number {
    return fs.statfsSync(this.folder).ffree;
  }

  /**
   * Waits for the guard of the lease, which ends soon after the platform's folder: it checks the folder a few times per
   * second.
   */
  async remove(): Promise<void> {
    await until(() => spawnSync('umount', [this.folder]).status === 0);
    fs.rmSync(this.#parent, { recursive: true });
  }
}
