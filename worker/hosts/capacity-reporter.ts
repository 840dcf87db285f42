import type { Logger } from 'pino';
import { readSizes, type SizedSandbox, storeCapacity } from '../../db/hosts/host-capacities.ts';
import type { Orm } from '../../db/orm.ts';
import type { MeteredUsage } from '../../db/usage/sandbox-metrics.ts';
import {
  type FreeCapacity,
  freeCores,
  freeDiskMb,
  freeMemoryMb,
  memoryReserveMb,
  type ProcessorUse,
  wantedCores,
} from '../../domain/hosts/capacity.ts';
import type { Resource, TemplateUse } from '../../domain/hosts/placement.ts';
import type { SandboxId } from '../../domain/ids.ts';
import type { HostDriver } from '../../runtime/host-driver.ts';

const everyMs = 2000;
const mb = 1024 ** 2;
/** The growth of the written data is measured over this time. */
const growthWindowMs = 10_000;
/** A sandbox that has run for less than this still counts with its expected use. */
const settledSeconds = 2;

/**
 * Writes to the host's row how much the host can still give to sandboxes by measured use: memory, disk and processor.
 * The same statement marks the sandboxes that these figures include, and stores the use of new sandboxes of each
 * template.
 */
export class CapacityReporter {
  readonly #deps: CapacityReporterParts;
  #timer: NodeJS.Timeout | null = null;
  #reporting: Promise<void> = Promise.resolve();
  #stopped = false;
  /** The result of the last sample of the sandboxes. Null after it was reported. */
  #sample: readonly MeteredUsage[] | null = null;
  #uses: ProcessorUse[] = [];
  readonly #sizes = new Map<SandboxId, SizedSandbox>();
  /** Sandboxes whose rows are marked as measured. */
  readonly #measured = new Set<SandboxId>();
  #disk: { atMs: number; freeMb: number }[] = [];
  #shortOf: readonly Resource[] = [];
  #latestFree: FreeCapacity | null = null;

  constructor(deps: CapacityReporterParts) {
    this.#deps = deps;
  }

  /** Reports once, so that the host is not offered without figures. Then reports repeatedly. */
  async start(): Promise<void> {
    await this.report();
    this.#next();
  }

  /** Stops after the current report. */
  async stop(): Promise<void> {
    this.#stopped = true;
    if (this.#timer) clearTimeout(this.#timer);
    await this.#reporting;
  }

  /** The figures of the last report. `free` is null before the first. */
  get latest(): { free: FreeCapacity | null; shortOf: readonly Resource[] } {
    return { free: this.#latestFree, shortOf: this.#shortOf };
  }

  /** Keeps the use of running sandboxes for the next report. */
  take(sample: readonly MeteredUsage[]): void {
    this.#sample = sample;
  }

  #next(): void {
    if (this.#stopped) return;
    this.#timer = setTimeout(() => {
      this.#reporting = this.report()
        .catch((error) =>
          this.#deps.logger.warn({ err: error }, 'the free room of the host could not be written to its row'),
        )
        .then(() => this.#next());
    }, everyMs);
  }

  async report(): Promise<void> {
    const { orm, hostId, logger } = this.#deps;
    const settled = (this.#sample ?? []).filter((usage) => usage.overSeconds >= settledSeconds);
    const hasNewSample = this.#sample !== null;
    this.#sample = null;
    if (hasNewSample) await this.#learn(settled);
    // Read after the sample, so that the free capacity includes the sample's sandboxes.
    const free = this.#free();
    const shortOf = (['cpu', 'memory', 'disk'] as const).filter((resource) => free[roomKeys[resource]] <= 0);
    const fresh = settled.filter(({ sandboxId }) => !this.#measured.has(sandboxId));
    const measuredIds = fresh.map(({ sandboxId }) => sandboxId);
    await storeCapacity(orm.em, hostId, {
      ...{ free, shortOf, measuredIds, templates: this.#templateUses(fresh) },
      secondsPerStart: this.#deps.driver.secondsPerStart ?? null,
    });
    this.#latestFree = free;
    if (hasNewSample) {
      this.#measured.clear();
      for (const { sandboxId } of settled) this.#measured.add(sandboxId);
    }
    if (String(shortOf) === String(this.#shortOf)) return;
    if (shortOf.length > 0) logger.warn({ shortOf, free }, 'this host has no room for more sandboxes now');
    else logger.info({ free }, 'this host has room again');
    this.#shortOf = shortOf;
  }

  /** Reads the template and the cores of each sandbox once. */
  async #learn(settled: readonly MeteredUsage[]): Promise<void> {
    const present = new Set(settled.map((usage) => usage.sandboxId));
    for (const sandboxId of this.#sizes.keys()) if (!present.has(sandboxId)) this.#sizes.delete(sandboxId);
    const unknown = [...present].filter((sandboxId) => !this.#sizes.has(sandboxId));
    if (unknown.length > 0) {
      for (const size of await readSizes(this.#deps.orm.em, unknown)) this.#sizes.set(size.sandboxId, size);
    }
    this.#uses = settled.flatMap((usage) => {
      const size = this.#sizes.get(usage.sandboxId);
      return size ? [{ cores: computeCores(usage), cpuCount: size.cpuCount }] : [];
    });
  }

  #free(): FreeCapacity {
    const { driver } = this.#deps;
    const { load } = driver;
    const memory = load.memory();
    const reserveMb = this.#deps.memoryReserveMb ?? memoryReserveMb(memory.totalMb);
    const { bytes, limits } = driver.diskSpace();
    const disk = { freeMb: bytes / mb, reserveMb: limits.admitBytes / mb };
    return {
      memoryTotalMb: Math.floor(memory.totalMb),
      memoryMb: freeMemoryMb({ ...memory, reserveMb }),
      diskMb: freeDiskMb({ ...disk, growthMbPerSecond: this.#growthMbPerSecond(disk.freeMb) }),
      cpu: freeCores(load.coreCount, wantedCores(this.#uses, load.processorUsed())),
    };
  }

  #growthMbPerSecond(freeMb: number): number {
    const atMs = performance.now();
    this.#disk = [...this.#disk.filter((each) => atMs - each.atMs <= growthWindowMs), { atMs, freeMb }];
    const first = this.#disk[0]!;
    return atMs > first.atMs ? ((first.freeMb - freeMb) * 1000) / (atMs - first.atMs) : 0;
  }

  /** The mean of the processor and the maximum of the memory, by template. */
  #templateUses(fresh: readonly MeteredUsage[]): Map<string, TemplateUse> {
    const findTemplateId = ({ sandboxId }: MeteredUsage) => this.#sizes.get(sandboxId)?.templateId;
    const uses = new Map<string, TemplateUse>();
    for (const templateId of new Set(fresh.map(findTemplateId))) {
      if (!templateId) continue;
      const its = fresh.filter((usage) => findTemplateId(usage) === templateId);
      uses.set(templateId, {
        cpu: its.reduce((sum, usage) => sum + computeCores(usage), 0) / its.length,
        memoryMb: Math.max(...its.map((usage) => usage.memoryBytes / mb)),
      });
    }
    return uses;
  }
}

const roomKeys = { cpu: 'cpu', memory: 'memoryMb', disk: 'diskMb' } as const;

const computeCores = (usage: MeteredUsage) => Math.max(0, usage.cpuSeconds / usage.overSeconds);

interface CapacityReporterParts {
  orm: Orm;
  driver: Pick<HostDriver, 'diskSpace' | 'load' | 'secondsPerStart'>;
  hostId: string;
  /** The memory in MB to keep free of sandboxes. Undefined: a part of the machine's memory. */
  memoryReserveMb?: number | undefined;
  logger: Logger;
}
