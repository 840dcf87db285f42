import type { RunEnd } from './run.ts';

/** Of the newest ends; each is asked for soon after. */
const kept = 64;

/** How the last runs ended, also those before the newest, for the platform to report. */
export class RunEnds {
  readonly #ends = new Map<string, RunEnd>();
  readonly #waiters = new Set<() => void>();

  add(end: RunEnd): void {
    this.#ends.set(end.runId, end);
    const [oldest] = this.#ends.keys();
    if (this.#ends.size > kept) this.#ends.delete(oldest!);
    for (const wake of [...this.#waiters]) wake();
  }

  find(runId: string): RunEnd | undefined {
    return this.#ends.get(runId);
  }

  /** Resolves with the next end of any run, after `waitMs` or on `signal`. */
  async next(waitMs: number, signal: AbortSignal): Promise<void> {
    if (signal.aborted) return;
    await new Promise<void>((resolve) => {
      const done = () => {
        clearTimeout(timer);
        signal.removeEventListener('abort', done);
        this.#waiters.delete(done);
        resolve();
      };
      const timer = setTimeout(done, waitMs);
      signal.addEventListener('abort', done, { once: true });
      this.#waiters.add(done);
    });
  }
}
