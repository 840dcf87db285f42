import type { SandboxSubstatus } from '../domain/sandbox-state.ts';
import type { CreatePhase } from '../runtime/driver.ts';

/**
 * Steps are written only for starts that take longer than this: most take less, and a create would pay for each write.
 */
const writtenAfterMs = 50;

/** Writes the steps of one start to its row: the latest one, at most once in `writtenAfterMs`, beside the work. */
export class StartSteps {
  readonly #write: (step: CreatePhase) => Promise<void>;
  #latest: CreatePhase | null = null;
  #timer: NodeJS.Timeout | undefined;
  #written: Promise<void> = Promise.resolve();
  readonly #onStep: (step: SandboxSubstatus, ms: number) => void;
  #present: { step: SandboxSubstatus; sinceMs: number } = { step: 'allocating', sinceMs: performance.now() };

  /** @param onStep called at the end of each step with how long it took */
  constructor(
    write: (step: CreatePhase) => Promise<void>,
    onStep: (step: SandboxSubstatus, ms: number) => void = () => undefined,
  ) {
    this.#write = write;
    this.#onStep = onStep;
  }

  enter(step: CreatePhase): void {
    this.#endStep();
    this.#present = { step, sinceMs: performance.now() };
    this.#latest = step;
    this.#timer ??= setTimeout(() => this.#writeLatest(), writtenAfterMs);
  }

  /** Begins no further write. */
  stop(): void {
    clearTimeout(this.#timer);
  }

  /** Begins no further write and waits for the present one. @throws what a write threw */
  async end(): Promise<void> {
    this.#endStep();
    this.stop();
    await this.#written;
  }

  #endStep(): void {
    this.#onStep(this.#present.step, performance.now() - this.#present.sinceMs);
  }

  #writeLatest(): void {
    this.#timer = undefined;
    const step = this.#latest!;
    this.#written = this.#written.then(() => this.#write(step));
    // `end` throws it.
    this.#written.catch(() => {});
  }
}
