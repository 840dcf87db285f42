/** Measures the milliseconds from its creation to each step. */
export class Stopwatch {
  readonly steps: Record<string, number> = {};
  readonly #start = performance.now();

  mark(step: string): void {
    this.steps[step] = Math.round((performance.now() - this.#start) * 10) / 10;
  }
}
