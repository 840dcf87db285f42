import { existsSync, readFileSync, statSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import type { DiskRates } from '../../domain/billing/plans.ts';
import { type CgroupTree, ignoreGoneGroup } from './cgroup-tree.ts';

/** The rates at which instances may use their disks. */
export class DiskRateLimits {
  readonly #tree: CgroupTree;

  constructor(tree: CgroupTree) {
    this.#tree = tree;
  }

  /** Whether this machine can limit the rates at which an instance uses its disk. Call it after `prepare`. */
  get arePossible(): boolean {
    return existsSync(this.listFiles('')[0] ?? '');
  }

  /** The files that limit the rates of an instance's disk. Empty: there is no such controller. */
  listFiles(instance: string): string[] {
    const isThere = this.#tree.version === 2 || this.#tree.has('blkio');
    return isThere ? rateFiles[this.#tree.version].map((name) => this.#tree.file('blkio', instance, name)) : [];
  }

  /** The text after a device that removes its limits from the files of `listFiles`. */
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
      this.listFiles(instance).map((file, at) => writeFile(file, `${device} ${texts[at]}`).catch(ignoreGoneGroup)),
    );
  }

  /**
   * Removes the limits of an instance's disk. A process that waits for its disk can be neither frozen nor ended, and
   * the limit can make this wait long.
   * @returns sets them again
   */
  async lift(instance: string): Promise<() => Promise<void>> {
    const lines: { file: string; device: string; limits: string }[] = [];
    for (const file of this.listFiles(instance)) {
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

const bytesPerMb = 1024 ** 2;

/**
 * The files of a control group that limit the rates of block devices. Version 1 has a file for each rate, version 2 one
 * for all. A line is `<major>:<minor>` and the limits of that device. (Linux, `admin-guide/cgroup-v1/blkio-controller`
 * and `admin-guide/cgroup-v2`.)
 */
const rateFiles = {
  1: [
    'blkio.throttle.read_bps_device',
    'blkio.throttle.write_bps_device',
    'blkio.throttle.read_iops_device',
    'blkio.throttle.write_iops_device',
  ],
  2: ['io.max'],
} as const;

/** The text after the device that removes its limits from one of the files. */
export const noRates = { 1: '0', 2: 'rbps=max wbps=max riops=max wiops=max' } as const;

/** The texts after the device, one for each of the files. */
export function rateTexts(version: 1 | 2, rates: DiskRates): string[] {
  const values = [
    rates.readMbPerSecond * bytesPerMb,
    rates.writeMbPerSecond * bytesPerMb,
    rates.readsPerSecond,
    rates.writesPerSecond,
  ];
  if (version === 1) return values.map(String);
  return [`rbps=${values[0]} wbps=${values[1]} riops=${values[2]} wiops=${values[3]}`];
}

/** The devices that a file limits, with their limits, in the form in which they are written. */
export function limitedDevices(text: string): { device: string; limits: string }[] {
  return [...text.matchAll(/^(\d+:\d+) (.+)$/gm)].map(([, device, limits]) => ({ device: device!, limits: limits! }));
}

/**
 * The `<major>:<minor>` of the device on which a mounted disk can be limited: the lower of its two loop devices
 * (`shim.pl`). Null: the container has just ended.
 */
export function limitableDevice(mountPoint: string): string | null {
  try {
    const { dev } = statSync(mountPoint);
    const upper = `${(dev >>> 8) & 0xfff}:${(dev & 0xff) | ((dev >>> 12) & 0xfff00)}`;
    const lower = /\/(loop\d+)$/m.exec(readFileSync(`/sys/dev/block/${upper}/loop/backing_file`, 'latin1'))?.[1];
    return lower ? readFileSync(`/sys/block/${lower}/dev`, 'latin1').trim() : null;
  } catch (error) {
    if (['ENOENT', 'ESRCH', 'ENXIO'].includes((error as NodeJS.ErrnoException).code ?? '')) return null;
    throw error;
  }
}
