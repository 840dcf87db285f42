import type { RunEnd } from './run.ts';

/** The number of kept ends. The platform asks for each end soon. */
const kept = 64;

/** The ends of the last runs, for the platform's reports. */
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

  /** Resolves at the next end of any run, after `waitMs`, or on `signal`. */
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
