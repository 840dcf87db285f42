import type { SandboxSubstatus } from '../../domain/sandboxes/state.ts';
import type { CreatePhase } from '../../runtime/driver.ts';

/**
 * Steps are written only for starts that take longer than this. Most starts are shorter, and each write would slow down
 * the create.
 */
const writtenAfterMs = 50;

/**
 * Writes the steps of one start to its row, concurrently with the work. Writes only the latest step, at most once in
 * `writtenAfterMs`.
 */
export class StartSteps {
  readonly #write: (step: CreatePhase) => Promise<void>;
  #latest: CreatePhase | null = null;
  #timer: NodeJS.Timeout | undefined;
  #written: Promise<void> = Promise.resolve();
  readonly #onStep: (step: SandboxSubstatus, ms: number) => void;
  #present: { step: SandboxSubstatus; sinceMs: number } = { step: 'allocating', sinceMs: performance.now() };

  /** @param onStep called at the end of each step with the duration of the step */
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

  /** Stops further writes. */
  stop(): void {
    clearTimeout(this.#timer);
  }

  /** Stops further writes and waits for the current one. @throws the error of a write */
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
    // `end` throws the error.
    this.#written.catch(() => {});
  }
}
