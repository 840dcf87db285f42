import type { Logger } from 'pino';
import type { Orm } from '../db/orm.ts';
import { endLease, type HostRegistration, leaseSeconds, renewLease } from '../db/repositories/hosts.ts';

const renewEveryMs = (leaseSeconds * 1000) / 3;

/** Keeps a host's lease alive as long as the process is. */
export class HostLease {
  readonly #orm: Orm;
  readonly #host: HostRegistration;
  readonly #logger: Logger;
  #timer: NodeJS.Timeout | null = null;

  constructor(deps: { orm: Orm; host: HostRegistration; logger: Logger }) {
    this.#orm = deps.orm;
    this.#host = deps.host;
    this.#logger = deps.logger;
  }

  /** Returns once the host is registered. @throws when the first renewal fails */
  async take(): Promise<void> {
    await renewLease(this.#orm.em, this.#host);
    this.#timer = setInterval(() => {
      renewLease(this.#orm.em, this.#host).catch((error) =>
        this.#logger.warn({ err: error }, 'the lease could not be renewed; trying again'),
      );
    }, renewEveryMs);
  }

  /** From now on no new sandboxes come here. */
  async giveUp(): Promise<void> {
    if (this.#timer) clearInterval(this.#timer);
    await endLease(this.#orm.em, this.#host.hostId);
  }
}
