import { abandonedSeconds, type HeldClaim, renewIdempotencyClaim } from '../../db/accounts/idempotency.ts';
import type { Orm } from '../../db/orm.ts';

const renewMs = (abandonedSeconds * 1000) / 4;

/**
 * The claim of a running request. It is renewed until the request ends, so that the claim of a process that died
 * expires soon.
 */
export class RenewedClaim {
  readonly #orm: Orm;
  readonly #onError: (error: unknown) => void;
  readonly #timer: NodeJS.Timeout;
  #claim: HeldClaim;
  #renewal: Promise<void> = Promise.resolve();

  constructor(orm: Orm, claim: HeldClaim, onError: (error: unknown) => void) {
    this.#orm = orm;
    this.#claim = claim;
    this.#onError = onError;
    this.#timer = setInterval(() => this.#renew(), renewMs);
    this.#timer.unref();
  }

  /** @returns the current claim, which is no longer renewed */
  async end(): Promise<HeldClaim> {
    clearInterval(this.#timer);
    await this.#renewal;
    return this.#claim;
  }

  #renew(): void {
    this.#renewal = this.#renewal
      .then(() => renewIdempotencyClaim(this.#orm.em.fork(), this.#claim))
      .then((claimedAt) => {
        if (claimedAt) this.#claim = { ...this.#claim, claimedAt };
        else clearInterval(this.#timer);
      })
      .catch(this.#onError);
  }
}
