import { existsSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import type { DiskRates } from '../../domain/billing/plans.ts';
import { type CgroupTree, ignoreGoneGroup } from './cgroup-tree.ts';
import { limitedDevices, noRates, rateFiles, rateTexts } from './disk-rates.ts';

/** The rates at which instances may use their disks. */
export class DiskRateLimits {
  readonly #tree: CgroupTree;

  constructor(tree: CgroupTree) {
    this.#tree = tree;
  }

  /** Whether this machine can limit the rates at which an instance uses its disk. Call it after `prepare`. */
  get arePossible(): boolean {
    return existsSync(this.filesOf('')[0] ?? '');
  }

  /** The files that limit the rates of an instance's disk. Empty: there is no such controller. */
  filesOf(instance: string): string[] {
    const isThere = this.#tree.version === 2 || this.#tree.has('blkio');
    return isThere ? rateFiles[this.#tree.version].map((name) => this.#tree.file('blkio', instance, name)) : [];
  }

  /** The text that `filesOf` take after a device to remove its limits. */
  get noRates(): string {
    return noRates[this.#tree.version];
  }

  /**
   * Limits the rates at which an instance uses a disk. Does nothing on a machine that cannot limit them.
   * @param device `<major>:<minor>`
   */
  async set(instance: string, device: string, rates: DiskRates): Promise<void> {
    if (!this.arePossible) return;
    const texts = rateTexts(this.#tree.version, rates);
    await Promise.all(
      this.filesOf(instance).map((file, at) => writeFile(file, `${device} ${texts[at]}`).catch(ignoreGoneGroup)),
    );
  }

  /**
   * Removes the limits of an instance's disk. A process that waits for its disk can be neither frozen nor ended, and
   * the limit can make this wait long.
   * @returns sets them again
   */
  async lift(instance: string): Promise<() => Promise<void>> {
    const lines: { file: string; device: string; limits: string }[] = [];
    for (const file of this.filesOf(instance)) {
      const text = await readFile(file, 'latin1').catch((error: NodeJS.ErrnoException) => {
        ignoreGoneGroup(error);
        return '';
      });
      lines.push(...limitedDevices(text).map((each) => ({ file, ...each })));
    }
    const write = (file: string, text: string) => writeFile(file, text).catch(ignoreGoneGroup);
    await Promise.all(lines.map(({ file, device }) => write(file, `${device} ${this.noRates}`)));
    return async () => {
      await Promise.all(lines.map(({ file, device, limits }) => write(file, `${device} ${limits}`)));
    };
  }
}
