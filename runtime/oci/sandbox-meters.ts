import { closeSync, openSync, readFileSync, readSync, statfsSync } from 'node:fs';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { SandboxId } from '../../domain/ids.ts';
import type { SandboxUsage } from '../driver.ts';
import type { DriverLogger } from '../driver-logger.ts';
import type { Cgroups, UsageFiles } from './cgroups.ts';
import type { SandboxNetwork } from './network.ts';
import { OwnFigures } from './own-figures.ts';
import { readPids, type SandboxRecord, type SandboxRecords } from './sandbox-records.ts';

/** Measures running sandboxes: their usage for the platform, and the figures that they see of themselves. */
export class SandboxMeters {
  readonly #records: SandboxRecords;
  readonly #cgroups: Cgroups;
  readonly #network: SandboxNetwork;
  readonly #usage: UsageMeter;
  readonly #figures: OwnFigures;

  constructor(parts: { records: SandboxRecords; cgroups: Cgroups; network: SandboxNetwork; logger: DriverLogger }) {
    this.#records = parts.records;
    this.#cgroups = parts.cgroups;
    this.#network = parts.network;
    this.#usage = new UsageMeter(parts.cgroups);
    this.#figures = new OwnFigures(parts.cgroups, parts.logger);
  }

  get sandboxIds(): SandboxId[] {
    return this.#usage.sandboxIds;
  }

  start(): void {
    this.#figures.start();
  }

  begin(record: SandboxRecord): void {
    const { shim } = readPids(this.#records.folderOf(record.sandboxId))!;
    this.#figures.begin(record.sandboxId, record.instance, shim);
    this.#usage.begin(record.sandboxId, {
      files: this.#cgroups.usageFiles(record.instance),
      diskFolder: `/proc/${shim.pid}/root/mnt/disk`,
      interface: this.#network.interfaceOf(record.address),
    });
  }

  end(sandboxId: SandboxId): void {
    this.#usage.end(sandboxId);
    this.#figures.end(sandboxId);
  }

  read(): Promise<SandboxUsage[]> {
    return this.#usage.read();
  }

  close(): Promise<void> {
    return this.#figures.stop();
  }
}

/** The sources of one sandbox's figures. */
interface Metered {
  files: UsageFiles;
  /** A folder on the sandbox's disk. */
  diskFolder: string;
  /** The host's end of its link. */
  interface: string;
  sinceMs: number;
  /** The counters at that time. Null: they were unreadable so far. */
  since: Counters | null;
}

/** Counters that only increase. */
type Counters = Pick<SandboxUsage, 'cpuSeconds' | 'receivedBytes' | 'sentBytes'>;

/** Errors that mean that the sandbox has just ended. */
const goneCodes = new Set(['ENOENT', 'ENODEV', 'ESRCH', 'EACCES']);
/** The number of sandboxes that are read before the event loop gets a turn, which takes a millisecond or two. */
const atOnce = 50;

/**
 * Reads the use of running sandboxes from the kernel: processor and memory from their control groups, disk from their
 * file system, network from the host's ends of their links. Thousands of sandboxes are read every few seconds, so each
 * costs only a few small reads.
 */
export class UsageMeter {
  readonly #version: 1 | 2;
  readonly #metered = new Map<SandboxId, Metered>();
  readonly #buffer = Buffer.alloc(8192);

  constructor(cgroups: Pick<Cgroups, 'version'>) {
    this.#version = cgroups.version;
  }

  /** Call this when a sandbox starts or continues after a pause. Its use counts from now on. */
  begin(sandboxId: SandboxId, from: Omit<Metered, 'sinceMs' | 'since'>): void {
    const since = unlessGone(() => ({ cpuSeconds: this.#cpuSeconds(from.files), ...trafficOf(from.interface) }));
    this.#metered.set(sandboxId, { ...from, sinceMs: performance.now(), since });
  }

  /** Call this when the sandbox no longer runs. */
  end(sandboxId: SandboxId): void {
    this.#metered.delete(sandboxId);
  }

  /** The running sandboxes. */
  get sandboxIds(): SandboxId[] {
    return [...this.#metered.keys()];
  }

  async read(): Promise<SandboxUsage[]> {
    const traffic = readTraffic();
    const usages: SandboxUsage[] = [];
    let turn = 0;
    for (const [sandboxId, metered] of this.#metered) {
      turn += 1;
      if (turn % atOnce === 0) await nextTurn();
      const usage = this.#readOne(sandboxId, metered, traffic);
      if (usage) usages.push(usage);
    }
    return usages;
  }

  #readOne(sandboxId: SandboxId, metered: Metered, traffic: Map<string, Traffic>): SandboxUsage | null {
    const { files, diskFolder } = metered;
    return unlessGone(() => {
      const cpuSeconds = this.#cpuSeconds(files);
      const { receivedBytes, sentBytes } = traffic.get(metered.interface) ?? { receivedBytes: 0, sentBytes: 0 };
      if (!metered.since) {
        metered.since = { cpuSeconds, receivedBytes, sentBytes };
        metered.sinceMs = performance.now();
        return null;
      }
      const memory = Number(this.#text(files.memory));
      const reclaimable = numberIn(
        this.#text(files.memoryStat),
        this.#version === 2 ? 'inactive_file' : 'total_inactive_file',
      );
      const disk = statfsSync(diskFolder);
      return {
        sandboxId,
        sinceMs: metered.sinceMs,
        atMs: performance.now(),
        cpuSeconds: cpuSeconds - metered.since.cpuSeconds,
        memoryBytes: Math.max(0, memory - reclaimable),
        diskBytes: (disk.blocks - disk.bfree) * disk.bsize,
        diskTotalBytes: disk.blocks * disk.bsize,
        // A repaired link counts from zero again.
        receivedBytes: Math.max(0, receivedBytes - metered.since.receivedBytes),
        sentBytes: Math.max(0, sentBytes - metered.since.sentBytes),
      };
    });
  }

  #cpuSeconds(files: UsageFiles): number {
    const cpu = this.#text(files.cpu);
    return this.#version === 2 ? numberIn(cpu, 'usage_usec') / 1e6 : Number(cpu) / 1e9;
  }

  /**
   * The file is opened each time, because open descriptors for the files of all sandboxes would number in the
   * thousands.
   */
  #text(file: string): string {
    const descriptor = openSync(file, 'r');
    try {
      return this.#buffer.toString('latin1', 0, readSync(descriptor, this.#buffer, 0, this.#buffer.length, 0));
    } finally {
      closeSync(descriptor);
    }
  }
}

type Traffic = Pick<SandboxUsage, 'receivedBytes' | 'sentBytes'>;

/** Null: the sandbox has just ended. */
function unlessGone<T>(read: () => T): T | null {
  try {
    return read();
  } catch (error) {
    if (goneCodes.has((error as NodeJS.ErrnoException).code ?? '')) return null;
    throw error;
  }
}

/** Counters of an interface of the host, from the view of its other end. */
function trafficOf(interfaceName: string): Traffic {
  const counter = (name: string) =>
    Number(readFileSync(`/sys/class/net/${interfaceName}/statistics/${name}`, 'latin1'));
  return { sentBytes: counter('rx_bytes'), receivedBytes: counter('tx_bytes') };
}

/** Bytes by interface of the host. The sandbox receives what the host sends, so the two counters are swapped. */
function readTraffic(): Map<string, Traffic> {
  const traffic = new Map<string, Traffic>();
  for (const line of readFileSync('/proc/net/dev', 'latin1').split('\n').slice(2)) {
    const [name, ...counters] = line.trim().split(/[:\s]+/);
    if (name) traffic.set(name, { sentBytes: Number(counters[0]), receivedBytes: Number(counters[8]) });
  }
  return traffic;
}

/** The number in the line `<name> <number>`. */
function numberIn(text: string, name: string): number {
  const at = `\n${text}`.indexOf(`\n${name} `);
  return at < 0 ? 0 : Number.parseInt(text.slice(at + name.length + 1), 10);
}
