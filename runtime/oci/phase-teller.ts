import type { CreatePhase } from '../driver.ts';

/** Tells a caller of phases in their order without holding up the work that goes on meanwhile. */
export class PhaseTeller {
  readonly #listener: ((phase: CreatePhase) => void | Promise<void>) | undefined;
  #reported: Promise<void> = Promise.resolve();

  constructor(listener: ((phase: CreatePhase) => void | Promise<void>) | undefined) {
    this.#listener = listener;
  }

  tell(phase: CreatePhase): void {
    this.#reported = this.#reported.then(() => this.#listener?.(phase));
    // What the listener throws comes out of `finish`.
    this.#reported.catch(() => {});
  }

  /** Waits until every phase is reported. @throws what the listener threw. */
  async finish(): Promise<void> {
    await this.#reported;
  }
}
