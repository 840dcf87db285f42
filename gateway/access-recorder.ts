import type { Logger } from 'pino';
import type { SandboxId } from '../domain/ids.ts';

/** Most ids kept while they cannot be written; more are forgotten, because this is only a time to the minute. */
const maxPending = 100_000;

const minuteMs = 60_000;

/** Stores that these sandboxes were last used in the minute that begins at `minute`. */
export type RecordAccess = (sandboxIds: SandboxId[], minute: Date) => Promise<void>;

/** Collects when sandboxes were last used, for `last_accessed_at`, and stores it at most once a minute. */
export class AccessRecorder {
  readonly #recordAccess: RecordAccess;
  readonly #logger: Logger;
  readonly #timer: NodeJS.Timeout;
  /** The beginning of the minute of the last use, Unix milliseconds. */
  #touched = new Map<SandboxId, number>();
  #writing: Promise<void> = Promise.resolve();

  constructor(recordAccess: RecordAccess, logger: Logger, intervalMs = minuteMs) {
    this.#recordAccess = recordAccess;
    this.#logger = logger;
    this.#timer = setInterval(() => void this.flush(), intervalMs).unref();
  }

  touch(sandboxId: SandboxId): void {
    if (this.#touched.size < maxPending) this.#touched.set(sandboxId, Math.floor(Date.now() / minuteMs) * minuteMs);
  }

  /** Stores the uses since the last call. Those that cannot be written are kept for the next. */
  flush(): Promise<void> {
    this.#writing = this.#writing.then(async () => {
      const byMinute = Map.groupBy(this.#touched, ([, minute]) => minute);
      this.#touched = new Map();
      for (const [minute, touched] of byMinute) {
        try {
          await this.#recordAccess(
            touched.map(([id]) => id),
            new Date(minute),
          );
        } catch (error) {
          this.#logger.warn({ err: error, count: touched.length }, 'accesses were not recorded');
          // A later use takes precedence.
          this.#touched = new Map([...touched, ...this.#touched]);
        }
      }
    });
    return this.#writing;
  }

  async close(): Promise<void> {
    clearInterval(this.#timer);
    await this.flush();
  }
}
