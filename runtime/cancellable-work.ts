import type { SandboxId } from '../domain/ids.ts';
import { DriverError } from './driver.ts';
import type { KeyedLock } from './process/keyed-lock.ts';

/** Runs the work of a driver, with at most one work per sandbox at a time. */
export class CancellableWork {
  readonly #lock: KeyedLock;
  readonly #inProgress = new Map<SandboxId, Set<AbortController>>();

  constructor(lock: KeyedLock) {
    this.#lock = lock;
  }

  /** Some work is in progress or waits for its turn. */
  get isBusy(): boolean {
    return this.#inProgress.size > 0;
  }

  /** Work of this sandbox is in progress or waits for its turn. */
  isBusyWith(sandboxId: SandboxId): boolean {
    return this.#inProgress.has(sandboxId);
  }

  /**
   * Runs work on a sandbox alone. The caller's signal and `cancel` end it, even while it waits for its turn.
   * @throws {DriverError} `aborted`
   */
  async run<Result>(
    sandboxId: SandboxId,
    callersSignal: AbortSignal | undefined,
    work: (signal: AbortSignal) => Promise<Result>,
  ): Promise<Result> {
    const stopper = new AbortController();
    const signal = callersSignal ? AbortSignal.any([callersSignal, stopper.signal]) : stopper.signal;
    const inProgress = this.#inProgress.get(sandboxId) ?? new Set();
    this.#inProgress.set(sandboxId, inProgress.add(stopper));
    try {
      return await this.#lock.run(sandboxId, async () => {
        signal.throwIfAborted();
        return work(signal);
      });
    } catch (error) {
      if (!signal.aborted || error instanceof DriverError) throw error;
      throw new DriverError('aborted', 'The work was cancelled', { cause: error });
    } finally {
      inProgress.delete(stopper);
      if (inProgress.size === 0) this.#inProgress.delete(sandboxId);
    }
  }

  /** Cancels all work of a sandbox. `message` is the reason in the error `aborted`. */
  cancel(sandboxId: SandboxId, message: string): void {
    for (const stopper of this.#inProgress.get(sandboxId) ?? []) stopper.abort(new DriverError('aborted', message));
  }
}
