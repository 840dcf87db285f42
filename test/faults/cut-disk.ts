import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { onHost } from '../runtime/local-host.ts';
import { until } from '../support/until.ts';

/**
 * An ext4 in a file, mounted. A power cut is a copy of that file at one moment: it contains what the kernel had
 * written, but not what the kernel still held in memory. The file must not change during the copy, so the file system
 * around it is frozen. For the disk inside this looks like a slow disk.
 */
export class CutDisk {
  /** The mount point of the disk, or of a copy of it. */
  readonly folder: string;
  readonly #parent = mkdtempSync(path.join(os.tmpdir(), 'power-cut-'));
  readonly #outer = path.join(this.#parent, 'outer');
  #copies = 0;

  constructor() {
    this.folder = path.join(this.#parent, 'disk');
    for (const folder of [this.#outer, this.folder]) mkdirSync(folder);
  }

  /** Sizes in the format of `truncate`. The files are sparse. */
  mountNew(size: string, outerSize: string): void {
    const image = path.join(this.#parent, 'outer.ext4');
    onHost('truncate', '-s', outerSize, image);
    onHost('mkfs.ext4', '-q', image);
    onHost('mount', '-o', 'loop', image, this.#outer);
    onHost('truncate', '-s', size, this.#disk);
    onHost('mkfs.ext4', '-q', this.#disk);
    onHost('mount', '-o', 'loop', this.#disk, this.folder);
  }

  get #disk(): string {
    return path.join(this.#outer, 'disk.ext4');
  }

  /** Synchronous, so nothing else of this process runs meanwhile. @returns the copy */
  cut(): string {
    const file = path.join(this.#parent, `copy-${this.#copies++}.ext4`);
    onHost('fsfreeze', '--freeze', this.#outer);
    try {
      onHost('cp', '--sparse=always', this.#disk, file);
    } finally {
      onHost('fsfreeze', '--unfreeze', this.#outer);
    }
    return file;
  }

  mountCopy(file: string): void {
    onHost('mount', '-o', 'loop', file, this.folder);
  }

  get isMounted(): boolean {
    return isMounted(this.folder);
  }

  /** The test must not use it any more. The lease's guard ends some moments after its folder. */
  async unmount(): Promise<void> {
    let refusal = '';
    const isDone = () => {
      const { status, stderr } = spawnSync('umount', [this.folder], { encoding: 'utf8' });
      refusal = stderr;
      return status === 0;
    };
    await until(isDone).catch((cause) => {
      throw new Error(refusal, { cause });
    });
  }

  async remove(): Promise<void> {
    if (this.isMounted) await this.unmount();
    // Sandboxes of this machine that were started meanwhile have the disk mounted in their own namespaces until they
    // end. So the outer file system stays busy, and is unmounted with the last of them.
    if (isMounted(this.#outer)) onHost('umount', '--lazy', this.#outer);
    rmSync(this.#parent, { recursive: true });
  }
}

function isMounted(folder: string): boolean {
  return spawnSync('mountpoint', ['-q', folder]).status === 0;
}
