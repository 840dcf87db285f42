import type { Logger } from 'pino';

const linesPerSecond = 10;

/** A log for lines that a tenant can cause. It writes a few lines per second, and the number of dropped lines. */
export class BoundedLog {
  readonly #logger: Logger;
  #secondStartedAtMs = Number.NEGATIVE_INFINITY;
  #lines = 0;
  #leftOut = 0;

  constructor(logger: Logger) {
    this.#logger = logger;
  }

  write(level: 'info' | 'warn' | 'error', fields: object, message: string): void {
    const now = performance.now();
    if (now - this.#secondStartedAtMs >= 1000) {
      this.#secondStartedAtMs = now;
      this.#lines = 0;
    }
    if (this.#lines >= linesPerSecond) {
      this.#leftOut++;
      return;
    }
    this.#lines++;
    const leftOut = this.#leftOut > 0 ? { linesLeftOut: this.#leftOut } : {};
    this.#leftOut = 0;
    this.#logger[level]({ ...fields, ...leftOut }, message);
  }
}
