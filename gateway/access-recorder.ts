import type { Logger } from 'pino';

/** Ids kept while they cannot be written; more are forgotten, this is only a time to the minute. */
const MAX_PENDING = 100_000;

/** Collects which sandboxes were used, for `last_accessed_at`, and hands them on at most once in a while. */
export class AccessRecorder {
  readonly #recordAccess: (sandboxIds: string[]) => Promise<void>;
  readonly #logger: Logger;
  readonly #timer: NodeJS.Timeout;
  #touched = new Set<string>();
  #writing: Promise<void> = Promise.resolve();

  constructor(recordAccess: (sandboxIds: string[]) => Promise<void>, logger: Logger, intervalMs = 60_000) {
    this.#recordAccess = recordAccess;
    this.#logger = logger;
    this.#timer = setInterval(() => void this.flush(), intervalMs).unref();
  }

  touch(sandboxId: string): void {
    if (this.#touched.size < MAX_PENDING) this.#touched.add(sandboxId);
  }

  /** Hands on what was touched since the last time. What cannot be written is kept for the next. */
  flush(): Promise<void> {
    this.#writing = this.#writing.then(async () => {
      if (this.#touched.size === 0) return;
      const sandboxIds = [...this.#touched];
      this.#touched = new Set();
      try {
        await this.#recordAccess(sandboxIds);
      } catch (error) {
        this.#logger.warn({ err: error, count: sandboxIds.length }, 'accesses were not recorded');
        for (const id of sandboxIds) this.touch(id);
      }
    });
    return this.#writing;
  }

  async close(): Promise<void> {
    clearInterval(this.#timer);
    await this.flush();
  }
}
