import type { ExecutionEnd } from './execution.ts';

/** The number of kept ends. The platform asks for each end soon. */
const kept = 64;

/** The ends of the last executions, for the platform's reports. */
export class ExecutionEnds {
  readonly #ends = new Map<string, ExecutionEnd>();
  readonly #waiters = new Set<() => void>();

  add(end: ExecutionEnd): void {
    this.#ends.set(end.executionId, end);
    const [oldest] = this.#ends.keys();
    if (this.#ends.size > kept) this.#ends.delete(oldest!);
    for (const wake of [...this.#waiters]) wake();
  }

  find(executionId: string): ExecutionEnd | undefined {
    return this.#ends.get(executionId);
  }

  /** Resolves at the next end of any execution, after `waitMs`, or on `signal`. */
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
