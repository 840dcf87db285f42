import { setTimeout as delay } from 'node:timers/promises';
import type { Logger } from 'pino';
import { revokedLastHops } from '../../db/hosts/last-hop-certificates.ts';
import type { Orm } from '../../db/orm.ts';
import { formatUri, type LastHopIdentity } from '../../domain/hosts/last-hop.ts';

const everyMs = 5000;

/**
 * The revoked identities. Until they were read once, all identities count as revoked. While they cannot be read again,
 * the last known ones apply, and certificates expire by themselves.
 */
export class Revocations {
  readonly #orm: Orm;
  readonly #logger: Logger;
  readonly #everyMs: number;
  readonly #stopping = new AbortController();
  readonly #listeners: (() => void)[] = [];
  #revoked: Set<string> | null = null;
  #running: Promise<void> | null = null;

  constructor(deps: { orm: Orm; logger: Logger; intervalMs?: number }) {
    this.#orm = deps.orm;
    this.#logger = deps.logger;
    this.#everyMs = deps.intervalMs ?? everyMs;
  }

  isRevoked(identity: LastHopIdentity): boolean {
    return this.#revoked?.has(formatUri(identity)) ?? true;
  }

  /** Calls back when the revoked identities have changed. */
  onChange(listener: () => void): void {
    this.#listeners.push(listener);
  }

  start(): void {
    this.#running ??= this.#run();
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#running;
  }

  async #run(): Promise<void> {
    const { signal } = this.#stopping;
    while (!signal.aborted) {
      try {
        const revoked = new Set((await revokedLastHops(this.#orm.em)).map(formatUri));
        const isChanged = revoked.size !== this.#revoked?.size;
        this.#revoked = revoked;
        if (isChanged) for (const listener of this.#listeners) listener();
      } catch (error) {
        this.#logger.warn({ err: error }, 'revoked identities of the last hop could not be read');
      }
      await delay(this.#everyMs, undefined, { signal }).catch(() => undefined);
    }
  }
}
