import type { Logger } from 'pino';
import type { SandboxId } from '../domain/ids.ts';

/**
 * The number of ids that are kept while they cannot be written. Further ids are dropped, because a lost time of access
 * does little harm.
 */
const maxPending = 100_000;

const minuteMs = 60_000;

/** Stores that these sandboxes were last used in the minute that begins at `minute`. */
export type RecordAccess = (sandboxIds: SandboxId[], minute: Date) => Promise<void>;

/** Collects the times of the last use of sandboxes for `last_accessed_at`, and stores them at most once a minute. */
export class AccessRecorder {
  readonly #recordAccess: RecordAccess;
  readonly #logger: Logger;
  readonly #timer: NodeJS.Timeout;
  /** The beginning of the minute of the last use, in Unix milliseconds. */
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

  /** Stores the uses since the last call. If the write fails, they are kept for the next call. */
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
          this.#logger.warn({ err: error, count: touched.length }, 'accesses could not be recorded');
          // A later use overrides an earlier one.
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
