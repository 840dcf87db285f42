import type { Logger } from 'pino';
import { usableCredentials } from '../db/accounts/identities.ts';
import type { Orm } from '../db/orm.ts';

const checkMs = 1000;

/**
 * Ends the streams of this process within two seconds after their key or session was removed, or their user was
 * disabled. It polls the database, because pushed notifications can be lost with their connection.
 */
export class CredentialWatch {
  readonly #orm: Orm;
  readonly #logger: Logger;
  readonly #streams = new Map<string, Set<() => void>>();
  #timer: NodeJS.Timeout | null = null;

  constructor(deps: { orm: Orm; logger: Logger }) {
    this.#orm = deps.orm;
    this.#logger = deps.logger;
  }

  /**
   * @param credentialId the id of a key or a session
   * @param end is called at most once
   * @returns a function that removes the stream from the watch
   */
  watch(credentialId: string, end: () => void): () => void {
    const streams = this.#streams.get(credentialId) ?? new Set();
    this.#streams.set(credentialId, streams);
    streams.add(end);
    this.#timer ??= setTimeout(() => this.#check(), checkMs).unref();
    return () => {
      streams.delete(end);
      if (streams.size === 0 && this.#streams.get(credentialId) === streams) this.#streams.delete(credentialId);
    };
  }

  async #check(): Promise<void> {
    try {
      const watched = [...this.#streams.keys()];
      const usable = await usableCredentials(this.#orm.em, watched);
      for (const credentialId of watched) if (!usable.has(credentialId)) this.#end(credentialId);
    } catch (error) {
      this.#logger.warn({ err: error }, 'the credentials of open streams could not be checked');
    }
    this.#timer = this.#streams.size > 0 ? setTimeout(() => this.#check(), checkMs).unref() : null;
  }

  #end(credentialId: string): void {
    const streams = this.#streams.get(credentialId) ?? [];
    this.#streams.delete(credentialId);
    for (const end of streams) end();
  }
}
