import pLimit from 'p-limit';
import type { DriverLogger } from '../driver-logger.ts';
import type { Cgroups } from './cgroups.ts';

/** A sandbox that is paused for less than this time resumes with its file cache. */
const keptSeconds = 30;

/**
 * Gives the file cache of paused sandboxes back to the machine. Files that a sandbox has read or written stay in memory,
 * although it uses none while it is paused. After the resume they are read from the disk again. Other memory stays,
 * because sandboxes have no swap.
 */
export class PausedMemory {
  readonly #cgroups: Cgroups;
  readonly #logger: DriverLogger;
  readonly #waiting = new Map<string, NodeJS.Timeout>();
  /** One at a time, because each takes a thread of the process. */
  readonly #oneAtATime = pLimit(1);

  constructor(parts: { cgroups: Cgroups; logger: DriverLogger }) {
    this.#cgroups = parts.cgroups;
    this.#logger = parts.logger;
  }

  /** Call this when an instance has been paused. Nothing happens if it is not paused when the time is over. */
  giveBackLater(instance: string): void {
    clearTimeout(this.#waiting.get(instance));
    const timer = setTimeout(() => {
      this.#waiting.delete(instance);
      void this.#oneAtATime(() => this.#giveBack(instance)).catch((error) =>
        this.#logger.warn({ err: error, instance }, 'the file cache of a paused sandbox could not be given back'),
      );
    }, keptSeconds * 1000);
    this.#waiting.set(instance, timer.unref());
  }

  close(): void {
    for (const timer of this.#waiting.values()) clearTimeout(timer);
    this.#waiting.clear();
  }

  async #giveBack(instance: string): Promise<void> {
    // It asks before each step, because a resume may have come in between.
    while (this.#cgroups.freezer.isFrozen(instance) && (await this.#cgroups.reclaim(instance)));
  }
}
