import { closeSync, existsSync, openSync, readFileSync, readlinkSync, readSync, statfsSync } from 'node:fs';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { SandboxId } from '../../domain/ids.ts';
import type { SandboxUsage } from '../driver.ts';
import type { DriverLogger } from '../driver-logger.ts';
import type { ProcessIdentity } from '../process/process-identity.ts';
import type { Cgroups, UsageFiles } from './cgroups.ts';
import type { SandboxNetwork } from './network.ts';
import { overwrite } from './overwrite.ts';
import { bootTime, type OwnSize, type OwnUse, onlineText, usedFileTexts } from './own-files.ts';
import { rebalance } from './processors.ts';
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
    const { shim } = readPids(this.#records.sandboxFolder(record.sandboxId))!;
    this.#figures.begin(record.sandboxId, record.instance, shim);
    this.#usage.begin(record.sandboxId, {
      files: this.#cgroups.usageFiles(record.instance),
      diskFolder: `/proc/${shim.pid}/root/mnt/disk`,
      interface: this.#network.interfaceName(record.address),
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
const goneCodes = new Set(['ENOENT', 'ENODEV', 'ESRCH', 'EACCES', 'ENOTDIR']);
/** The number of sandboxes that are read before the event loop gets a turn, which takes a millisecond or two. */
const meteredPerTurn = 50;

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
    const since = unlessGone(() => ({ cpuSeconds: this.#cpuSeconds(from.files), ...readCounters(from.interface) }));
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
      if (turn % meteredPerTurn === 0) await nextTurn();
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
function readCounters(interfaceName: string): Traffic {
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

/** A round takes at most this share of a processor. With more sandboxes there are fewer rounds. */
const share = 0.01;
const [shortestPauseMs, longestPauseMs] = [1000, 10_000];
/** The number of sandboxes that are read before the event loop gets a turn, which takes a few milliseconds. */
const shownPerTurn = 20;
const minutesOfLoad = [1, 5, 15] as const;
/** The unit of times in /proc. It is the same on every machine that runs Linux. */
const ticksPerSecond = 100;

interface Shown {
  instance: string;
  size: OwnSize;
  /** The folder of its own files, reached through its shim. */
  folder: string;
  /** Seconds since 1970. */
  startedAt: number;
  /** Processor time at the last read. */
  last: { atMs: number; hundredths: number } | null;
  load: [number, number, number];
  /** The use in processors. */
  used: number;
}

/**
 * Writes each running sandbox's own use to the sandbox's own files of `/proc` (`own-files.ts`), and balances the
 * sandboxes over the processors. The files are plain files in memory, written by the host: no process of a sandbox ever
 * waits for the host, and without the host the files only become outdated.
 */
class OwnFigures {
  readonly #cgroups: Cgroups;
  readonly #logger: DriverLogger;
  readonly #shown = new Map<SandboxId, Shown>();
  #timer: NodeJS.Timeout | undefined;
  #round: Promise<void> = Promise.resolve();
  #stopped = false;

  constructor(cgroups: Cgroups, logger: DriverLogger) {
    this.#cgroups = cgroups;
    this.#logger = logger;
  }

  /** Starts the rounds. */
  start(): void {
    this.#next(shortestPauseMs);
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    clearTimeout(this.#timer);
    await this.#round;
  }

  /**
   * Call this when a sandbox starts or continues after a pause. On return its files are up to date. Failures are only
   * logged.
   */
  begin(sandboxId: SandboxId, instance: string, shim: ProcessIdentity): void {
    const before = this.#shown.get(sandboxId);
    this.#unlessGone(() => {
      const shown: Shown = {
        instance,
        size: this.#cgroups.readSize(instance),
        folder: `/proc/${shim.pid}/root/mnt/own`,
        startedAt: readStart(shim),
        last: null,
        load: before?.instance === instance ? before.load : [0, 0, 0],
        used: 0,
      };
      this.#shown.set(sandboxId, shown);
      this.#show(shown);
    });
  }

  /** Call this when the sandbox no longer runs. */
  end(sandboxId: SandboxId): void {
    this.#shown.delete(sandboxId);
  }

  #next(pauseMs: number): void {
    if (this.#stopped) return;
    this.#timer = setTimeout(() => {
      this.#round = this.#showAll()
        .catch((error) => {
          this.#logger.warn({ err: error }, 'the usage files of sandboxes could not be written');
          return longestPauseMs;
        })
        .then((next) => this.#next(next));
    }, pauseMs);
    this.#timer.unref();
  }

  /** @returns the pause until the next round */
  async #showAll(): Promise<number> {
    let spentMs = 0;
    let turn = 0;
    for (const [sandboxId, shown] of this.#shown) {
      turn += 1;
      if (turn % shownPerTurn === 0) await nextTurn();
      const beganMs = performance.now();
      // The sandbox has ended meanwhile.
      if (this.#shown.get(sandboxId) !== shown) continue;
      this.#unlessGone(() => this.#show(shown));
      spentMs += performance.now() - beganMs;
    }
    await this.#rebalance();
    return Math.min(longestPauseMs, Math.max(shortestPauseMs, spentMs / share));
  }

  #show(shown: Shown): void {
    const { size, folder, startedAt } = shown;
    const { memory, user, system, processes } = this.#cgroups.readUse(shown.instance);
    const atMs = performance.now();
    const hundredths = user + system;
    if (shown.last) {
      const seconds = Math.max(0.001, (atMs - shown.last.atMs) / 1000);
      shown.used = Math.max(0, hundredths - shown.last.hundredths) / ticksPerSecond / seconds;
      shown.load = shown.load.map((load, at) => {
        const kept = Math.exp(-seconds / (60 * minutesOfLoad[at]!));
        return load * kept + shown.used * (1 - kept);
      }) as [number, number, number];
    }
    shown.last = { atMs, hundredths };
    const alive = (Date.now() / 1000 - startedAt) * ticksPerSecond * size.processors.length;
    const idle = Math.max(0, Math.floor(alive) - hundredths);
    const use: OwnUse = { memory, time: { user, system, idle }, startedAt, load: shown.load, processes };
    for (const [name, text] of Object.entries(usedFileTexts(size, use))) overwrite(`${folder}/${name}`, text);
  }

  /** Ignores the errors of a sandbox that has just ended. */
  #unlessGone(work: () => void): void {
    try {
      work();
    } catch (error) {
      if (goneCodes.has((error as NodeJS.ErrnoException).code ?? '')) return;
      this.#logger.warn({ err: error }, 'the usage files of a sandbox could not be written');
    }
  }

  async #rebalance(): Promise<void> {
    const available = this.#cgroups.pins.all();
    const pinned = [...this.#shown].filter(([, { size }]) => size.processors.length < available.length);
    const places = pinned.map(([, { instance, size, used }]) => ({ instance, processors: size.processors, used }));
    for (const [instance, processors] of rebalance(available, places)) {
      const [, shown] = pinned.find(([, each]) => each.instance === instance)!;
      await this.#cgroups.pins.pin(instance, processors);
      this.#unlessGone(() => overwrite(`${shown.folder}/online`, onlineText(processors)));
      shown.size = { ...shown.size, processors };
    }
  }
}

/**
 * The start of a sandbox's time, in seconds since 1970. On a kernel without time namespaces, it is the start of the
 * machine.
 */
function readStart({ pid, startTicks }: ProcessIdentity): number {
  if (!existsSync('/proc/self/ns/time')) return bootTime();
  const isOwn = readlinkSync(`/proc/${pid}/ns/time_for_children`) !== readlinkSync('/proc/self/ns/time');
  return bootTime() + (isOwn ? Math.floor(Number(startTicks) / ticksPerSecond) : 0);
}
