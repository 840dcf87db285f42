import type { CreatePhase } from './driver.ts';

/** Reports the phases of a create in order. The work does not wait for the listener. */
export class PhaseReports {
  readonly #listener: ((phase: CreatePhase) => void | Promise<void>) | undefined;
  #reported: Promise<void> = Promise.resolve();

  constructor(listener: ((phase: CreatePhase) => void | Promise<void>) | undefined) {
    this.#listener = listener;
  }

  report(phase: CreatePhase): void {
    this.#reported = this.#reported.then(() => this.#listener?.(phase));
    // `finish` throws the listener's error.
    this.#reported.catch(() => {});
  }

  /** Waits until all phases are reported. @throws the listener's error */
  async finish(): Promise<void> {
    await this.#reported;
  }
}
