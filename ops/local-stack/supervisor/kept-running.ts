import { setTimeout as delay } from 'node:timers/promises';
import { describeEnd, type ProgramEnd, whenAborted } from '../embedded/child-program.ts';

/** A running part that may end at any time and can be stopped. */
export interface Part {
  readonly ended: Promise<ProgramEnd>;
  stop(): Promise<void>;
}

const firstPauseMs = 500;
const longestPauseMs = 30_000;
/** A part that has run this long has started well, so its pauses start from the beginning. */
const soundAfterMs = 60_000;

/** Keeps a part running: when it ends by itself, it is restarted after a pause that doubles each time. */
export class KeptRunning {
  readonly name: string;
  readonly #start: () => Promise<Part>;
  readonly #report: (text: string) => void;
  readonly #noRestart: AbortSignal;
  readonly #stopping = new AbortController();
  #watch: Promise<void> = Promise.resolve();

  private constructor(
    name: string,
    start: () => Promise<Part>,
    report: (text: string) => void,
    noRestart: AbortSignal,
  ) {
    this.name = name;
    this.#start = start;
    this.#report = report;
    this.#noRestart = AbortSignal.any([noRestart, this.#stopping.signal]);
  }

  /**
   * Resolves when the part is ready for the first time.
   * @param start resolves when the part is ready; the first rejection is passed on, later ones count as an end
   * @param noRestart aborted when the platform begins to stop: an ended part stays ended
   */
  static async start(
    name: string,
    start: () => Promise<Part>,
    report: (text: string) => void,
    noRestart: AbortSignal,
  ): Promise<KeptRunning> {
    const kept = new KeptRunning(name, start, report, noRestart);
    const part = await start();
    kept.#watch = kept.#keep(part);
    return kept;
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#watch;
  }

  async #keep(first: Part): Promise<void> {
    const stopAsked = whenAborted(this.#stopping.signal);
    let part: Part | undefined = first;
    let startedMs = Date.now();
    let pauseMs = firstPauseMs;
    for (;;) {
      if (part) {
        const end = await Promise.race([part.ended, stopAsked]);
        if (!end) break;
        part = undefined;
        if (Date.now() - startedMs > soundAfterMs) pauseMs = firstPauseMs;
        const next = this.#noRestart.aborted ? '' : `, starting it again in ${pauseMs / 1000} s`;
        this.#report(`${this.name} ended (${describeEnd(end)})${next}`);
      }
      await delay(pauseMs, undefined, { signal: this.#noRestart }).catch(() => undefined);
      if (this.#noRestart.aborted) break;
      pauseMs = Math.min(pauseMs * 2, longestPauseMs);
      try {
        startedMs = Date.now();
        part = await this.#start();
        this.#report(`${this.name} is ready again`);
      } catch (error) {
        const next = this.#noRestart.aborted ? '' : `\n${this.name}: trying again in ${pauseMs / 1000} s`;
        this.#report(`${(error as Error).message}${next}`);
      }
    }
    await part?.stop();
  }
}
