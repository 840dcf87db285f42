import { existsSync, readlinkSync } from 'node:fs';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { SandboxId } from '../../domain/ids.ts';
import type { DriverLogger } from '../driver-logger.ts';
import type { ProcessIdentity } from '../process/process-identity.ts';
import type { Cgroups } from './cgroups.ts';
import { overwrite } from './overwrite.ts';
import { bootTime, type OwnSize, type OwnUse, onlineText, usedFileTexts } from './own-files.ts';
import { evenOut } from './processors.ts';

/** A round takes at most this share of a processor. With more sandboxes there are fewer rounds. */
const share = 0.01;
const [shortestPauseMs, longestPauseMs] = [1000, 10_000];
/** The number of sandboxes that are read before the event loop gets a turn, which takes a few milliseconds. */
const atOnce = 20;
const minutesOfLoad = [1, 5, 15] as const;
const goneCodes = new Set(['ENOENT', 'ENODEV', 'ESRCH', 'EACCES', 'ENOTDIR']);
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
export class OwnFigures {
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
        size: this.#cgroups.sizeOf(instance),
        folder: `/proc/${shim.pid}/root/mnt/own`,
        startedAt: startOf(shim),
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
      if (turn % atOnce === 0) await nextTurn();
      const beganMs = performance.now();
      // The sandbox has ended meanwhile.
      if (this.#shown.get(sandboxId) !== shown) continue;
      this.#unlessGone(() => this.#show(shown));
      spentMs += performance.now() - beganMs;
    }
    await this.#evenOut();
    return Math.min(longestPauseMs, Math.max(shortestPauseMs, spentMs / share));
  }

  #show(shown: Shown): void {
    const { size, folder, startedAt } = shown;
    const { memory, user, system, processes } = this.#cgroups.useOf(shown.instance);
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

  async #evenOut(): Promise<void> {
    const available = this.#cgroups.pins.all();
    const pinned = [...this.#shown].filter(([, { size }]) => size.processors.length < available.length);
    const places = pinned.map(([, { instance, size, used }]) => ({ instance, processors: size.processors, used }));
    for (const [instance, processors] of evenOut(available, places)) {
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
function startOf({ pid, startTicks }: ProcessIdentity): number {
  if (!existsSync('/proc/self/ns/time')) return bootTime();
  const isOwn = readlinkSync(`/proc/${pid}/ns/time_for_children`) !== readlinkSync('/proc/self/ns/time');
  return bootTime() + (isOwn ? Math.floor(Number(startTicks) / ticksPerSecond) : 0);
}
