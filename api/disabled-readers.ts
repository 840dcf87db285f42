import type { Logger } from 'pino';
import type { Orm } from '../db/orm.ts';
import { enabledUsersOf } from '../db/repositories/users.ts';

const checkMs = 1000;

/**
 * Ends what this process streams to users who are disabled or deleted meanwhile, within a second or two. It asks the
 * database: news that are pushed may be lost with their connection.
 */
export class DisabledReaders {
  readonly #orm: Orm;
  readonly #logger: Logger;
  readonly #streams = new Map<string, Set<() => void>>();
  #timer: NodeJS.Timeout | null = null;

  constructor(deps: { orm: Orm; logger: Logger }) {
    this.#orm = deps.orm;
    this.#logger = deps.logger;
  }

  /** @param end is called once at most @returns forgets the stream again */
  watch(userId: string, end: () => void): () => void {
    const streams = this.#streams.get(userId) ?? new Set();
    this.#streams.set(userId, streams);
    streams.add(end);
    this.#timer ??= setTimeout(() => this.#check(), checkMs).unref();
    return () => {
      streams.delete(end);
      if (streams.size === 0 && this.#streams.get(userId) === streams) this.#streams.delete(userId);
    };
  }

  async #check(): Promise<void> {
    try {
      const watched = [...this.#streams.keys()];
      const enabled = watched.length > 0 ? await enabledUsersOf(this.#orm.em, watched) : new Set();
      for (const userId of watched) if (!enabled.has(userId)) this.#end(userId);
    } catch (error) {
      this.#logger.warn({ err: error }, 'readers of streams are not looked up now');
    }
    this.#timer = this.#streams.size > 0 ? setTimeout(() => this.#check(), checkMs).unref() : null;
  }

  #end(userId: string): void {
    const streams = this.#streams.get(userId) ?? [];
    this.#streams.delete(userId);
    for (const end of streams) end();
  }
}
