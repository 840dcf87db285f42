import { statSync } from 'node:fs';
import type { Logger } from 'pino';
import { setFullDisk } from '../../db/hosts/hosts.ts';
import type { Orm } from '../../db/orm.ts';
import type { FullDisk } from '../../domain/hosts/placement.ts';
import type { SandboxId } from '../../domain/ids.ts';
import { ensureBallast, releaseBallastIfFull } from '../../runtime/disk/ballast.ts';
import { type DiskSpace, hasSpaceToAdmit, readDiskSpace } from '../../runtime/disk/disk-space.ts';
import type { DiskFence, DiskUse, HostDriver } from '../../runtime/host-driver.ts';
import type { SandboxFacts } from '../sandboxes/facts.ts';

const mib = 1024 ** 2;
/** An assumed write speed that no disk exceeds, so that the reserve cannot fill between two checks. */
const bytesPerSecond = 4e9;
const [shortestPauseMs, longestPauseMs] = [100, 1000];
/** Growth is measured over this time. */
const windowMs = 3000;
/** A sandbox with less growth does not count as filling the disk. */
const smallGrowthBytes = 4 * mib;
/** Sandboxes with at least this share of the fastest one's growth are paused with it. */
const shareOfFastest = 1 / 4;
/** A full host takes sandboxes again when the free space is this factor above the limit. */
const recovered = 1.1;
/** If the workflow of a sandbox has not paused it within this time, the sandbox is reported again. */
const askAgainMs = 5000;
const ballastEveryMs = 10_000;

interface Measure {
  atMs: number;
  uses: Map<SandboxId, number>;
}

/**
 * Watches the free space of a host's disks. When space gets scarce, the host first takes no more sandboxes, then pauses
 * the ones that grow fastest (`host_disk_pressure`). The reserve below that limit is for the platform: before sandboxes
 * could use it, the lease guard freezes all of them until this watch has paused the writers.
 */
export class DiskWatch {
  readonly #deps: DiskWatchParts;
  /** The state of one disk. */
  readonly #folders: string[];
  #timer: NodeJS.Timeout | null = null;
  #checking: Promise<void> = Promise.resolve();
  /** A write of the host's row is in progress. */
  #writing: Promise<void> | null = null;
  #stopped = false;
  #fullDisk: FullDisk | null | undefined;
  #measures: Measure[] = [];
  /** Sandboxes that this watch froze, with the time of the last request to their workflow to pause them. */
  readonly #halted = new Map<SandboxId, number>();
  readonly #ended = new Set<SandboxId>();
  /** The first check makes the ballast, because a disk may fill soon after the host has started. */
  #ballastAtMs = Number.NEGATIVE_INFINITY;

  constructor(deps: DiskWatchParts) {
    this.#deps = deps;
    const { diskFolder, cacheDir } = deps;
    const isOneDisk = statSync(diskFolder).dev === statSync(cacheDir).dev;
    this.#folders = isOneDisk ? [diskFolder] : [diskFolder, cacheDir];
  }

  /** Checks once, so that a host with a full disk is not offered. Then checks repeatedly. */
  async start(): Promise<void> {
    await this.check();
    await this.#writing;
    this.#next();
  }

  /** Stops after the current check. */
  async stop(): Promise<void> {
    this.#stopped = true;
    if (this.#timer) clearTimeout(this.#timer);
    await this.#checking;
    await Promise.allSettled([this.#writing]);
  }

  #next(): void {
    if (this.#stopped) return;
    const { bytes, limits } = this.#deps.driver.diskSpace();
    const untilPressureMs = ((bytes - limits.pauseBytes) / bytesPerSecond) * 1000;
    const pauseMs = Math.min(longestPauseMs, Math.max(shortestPauseMs, untilPressureMs));
    this.#timer = setTimeout(() => {
      this.#checking = this.check()
        .catch((error) => this.#deps.logger.warn({ err: error }, 'the disk could not be checked; trying again'))
        .then(() => this.#next());
    }, pauseMs);
  }

  /** Runs one check. It never waits for the database, which may be out of space on this same disk. */
  async check(): Promise<void> {
    const { driver, cacheDir } = this.#deps;
    const space = driver.diskSpace();
    const uses = await this.#measure(space);
    if (space.bytes < space.limits.pauseBytes) await this.#pauseWriters(space, uses);
    await this.#keepReserve(driver.diskSpace());
    for (const folder of this.#folders) {
      if (releaseBallastIfFull(folder))
        this.#deps.logger.error({ folder }, 'the disk is full; its reserve was released');
    }
    await this.#refillBallast();
    const cache = this.#folders.length > 1 ? readDiskSpace(cacheDir) : null;
    this.#startWriting(space, cache);
  }

  /** Writes run one at a time. The next check writes later changes. */
  #startWriting(space: DiskSpace, cache: DiskSpace | null): void {
    if (this.#writing) return;
    this.#writing = this.#writeFullDisk(space, cache).finally(() => {
      this.#writing = null;
    });
    this.#writing.catch((error) => {
      this.#deps.logger.warn(
        { err: error },
        'the state of the disk could not be written to the row of the host; trying again',
      );
    });
  }

  async #measure(space: DiskSpace): Promise<DiskUse[]> {
    if (space.bytes > 4 * space.limits.admitBytes) {
      this.#measures = [];
      this.#halted.clear();
      return [];
    }
    const uses = await this.#deps.driver.diskUse();
    const atMs = performance.now();
    this.#measures.push({ atMs, uses: new Map(uses.map((use) => [use.sandboxId, use.bytes])) });
    this.#measures = this.#measures.filter((measure) => atMs - measure.atMs <= windowMs);
    const running = new Set(uses.map((use) => use.sandboxId));
    for (const each of [...this.#halted.keys(), ...this.#ended]) {
      if (running.has(each)) continue;
      this.#halted.delete(each);
      this.#ended.delete(each);
    }
    return uses;
  }

  #computeGrowth({ sandboxId, bytes }: DiskUse): number {
    const before = this.#measures.flatMap((measure) => measure.uses.get(sandboxId) ?? []);
    return bytes - Math.min(bytes, ...before);
  }

  async #pauseWriters(space: DiskSpace, uses: readonly DiskUse[]): Promise<void> {
    const free = uses.filter((use) => !this.#halted.has(use.sandboxId));
    const growths = free.map((use) => ({ ...use, growth: this.#computeGrowth(use) }));
    const fastest = Math.max(0, ...growths.map(({ growth }) => growth));
    const isReserveHalfUsed = space.bytes < space.limits.reserveBytes / 2;
    const least = Math.max(smallGrowthBytes, fastest * shareOfFastest);
    const writers = growths.filter(({ growth }) => isReserveHalfUsed || growth >= least);
    await Promise.all(writers.map(({ sandboxId }) => this.#deps.driver.halt(sandboxId)));
    for (const { sandboxId, run, growth } of writers) {
      this.#deps.logger.warn({ sandboxId, growth, space: space.bytes }, 'paused: the disk is nearly full');
      this.#ask(sandboxId, run);
    }
    for (const { sandboxId, run, isFrozen } of uses) {
      if (this.#ended.has(sandboxId) || !this.#halted.has(sandboxId)) continue;
      // A system call in progress may still write gigabytes. Only ending the processes stops it.
      if (!isFrozen && isReserveHalfUsed) await this.#end(sandboxId, run);
      else if (performance.now() - this.#halted.get(sandboxId)! > askAgainMs) this.#ask(sandboxId, run);
    }
  }

  #ask(sandboxId: SandboxId, run: number | null): void {
    this.#halted.set(sandboxId, performance.now());
    this.#report(sandboxId, { run, ended: false });
  }

  async #end(sandboxId: SandboxId, run: number | null): Promise<void> {
    this.#ended.add(sandboxId);
    this.#deps.logger.warn({ sandboxId }, 'ended: it continued to write to the reserve of the disk');
    // The report comes before the end of the processes. Otherwise their end could be reported as a loss of memory.
    this.#report(sandboxId, { run, ended: true });
    await this.#deps.driver.endNow(sandboxId);
  }

  /**
   * Reports in the background, because Temporal may be out of space on its disk and answer only after this watch has
   * freed some.
   */
  #report(sandboxId: SandboxId, report: { run: number | null; ended: boolean }): void {
    this.#deps.facts.diskPressure(sandboxId, report).catch((error) => {
      this.#deps.logger.warn({ err: error, sandboxId }, 'disk pressure could not be reported to its workflow');
    });
  }

  /**
   * When the writers are frozen one by one, the other sandboxes are thawed, although part of the reserve is used. At
   * least half of the reserve is kept.
   */
  async #keepReserve({ bytes, limits }: DiskSpace): Promise<void> {
    const { fence, lease } = this.#deps;
    const { reserveBytes } = limits;
    const kept = bytes < reserveBytes ? Math.max(reserveBytes / 2, bytes - reserveBytes / 8) : reserveBytes;
    await fence.keepFree(Math.floor(kept));
    if (fence.isClosed) await lease.openFenceIfHeld();
  }

  async #refillBallast(): Promise<void> {
    if (performance.now() - this.#ballastAtMs < ballastEveryMs) return;
    this.#ballastAtMs = performance.now();
    for (const folder of this.#folders) await ensureBallast(folder);
  }

  async #writeFullDisk(data: DiskSpace, cache: DiskSpace | null): Promise<void> {
    const ease = this.#fullDisk ? recovered : 1;
    // A start writes little to the cache, so the cache counts as full only at its reserve.
    const cacheIsFull =
      cache !== null &&
      (cache.bytes < cache.limits.reserveBytes * ease || cache.inodes < cache.limits.reserveInodes * ease);
    const eased = { ...data, bytes: data.bytes / ease, inodes: data.inodes / ease };
    const fullDisk = hasSpaceToAdmit(eased) ? (cacheIsFull ? 'cache' : null) : 'data';
    if (fullDisk === this.#fullDisk) return;
    await setFullDisk(this.#deps.orm.em, this.#deps.hostId, fullDisk);
    if (fullDisk)
      this.#deps.logger.warn({ fullDisk, space: data }, 'the disk is nearly full; this host takes no more sandboxes');
    else if (this.#fullDisk) this.#deps.logger.info('the disk has room again');
    this.#fullDisk = fullDisk;
  }
}

interface DiskWatchParts {
  orm: Orm;
  /** The folder of the sandboxes' disks. */
  diskFolder: string;
  driver: Pick<HostDriver, 'diskSpace' | 'diskUse' | 'halt' | 'endNow'>;
  fence: Pick<DiskFence, 'keepFree' | 'isClosed'>;
  lease: { openFenceIfHeld(): Promise<void> };
  facts: Pick<SandboxFacts, 'diskPressure'>;
  hostId: string;
  cacheDir: string;
  logger: Logger;
}
