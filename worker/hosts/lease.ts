import type { Logger } from 'pino';
import { LeaseConnection } from '../../db/core/lease-connection.ts';
import { endLease, type HostRegistration, renewLease } from '../../db/hosts/hosts.ts';
import type { HostFence } from '../../runtime/host-driver.ts';
import { uptimeSeconds } from '../../runtime/uptime.ts';

/**
 * The part of the lease's length after which sandboxes are frozen if the lease was not renewed. It ends well before the
 * host is given up.
 */
const fencedAfter = 0.8;
/** A host that stops in order (an upgrade, a reboot) keeps its sandboxes for this many seconds. */
export const awaySeconds = 900;

/** Renews a host's lease while the process runs, and lets its sandboxes run only while the lease is valid. */
export class HostLease {
  readonly #connection: LeaseConnection;
  readonly #describe: () => HostRegistration;
  readonly #fence: HostFence;
  readonly #leaseSeconds: number;
  readonly #logger: Logger;
  readonly #onLost: () => void;
  #timer: NodeJS.Timeout | null = null;
  #renewing: Promise<void> | null = null;
  #offers = false;
  #heldUntilSeconds = 0;

  /** @param deps.onLost called when the host was given up: its sandboxes have failed, and the process must restart */
  constructor(deps: {
    databaseUrl: string;
    /** Read at each renewal, because the capacity of a disk changes. */
    describe: () => HostRegistration;
    fence: HostFence;
    leaseSeconds: number;
    logger: Logger;
    onLost: () => void;
  }) {
    this.#connection = new LeaseConnection(deps.databaseUrl, (deps.leaseSeconds * 1000) / 5);
    this.#describe = deps.describe;
    this.#fence = deps.fence;
    this.#leaseSeconds = deps.leaseSeconds;
    this.#logger = deps.logger;
    this.#onLost = deps.onLost;
  }

  /**
   * Renews the lease without offering capacity yet.
   * @returns whether the host had been given up; then its sandboxes stay frozen until `offer`
   * @throws when Postgres is unreachable
   */
  async hold(): Promise<{ lost: boolean }> {
    const { lost } = await this.#renew();
    if (!lost) await this.#openFence();
    this.#timer = setInterval(() => this.#tick(), (this.#leaseSeconds * 1000) / 4);
    return { lost };
  }

  /** Offers the host for new sandboxes. If the host had been given up, its remains must be removed before. */
  async offer(): Promise<void> {
    await this.#renewing;
    this.#offers = true;
    const renewed = this.#renewAgain();
    // Prevents a concurrent renewal by a tick.
    this.#renewing = renewed
      .catch(() => {})
      .finally(() => {
        this.#renewing = null;
      });
    await renewed;
  }

  /** Thaws the sandboxes that were frozen because of the lease, if the lease is valid. */
  async openFenceIfHeld(): Promise<void> {
    if (uptimeSeconds() < this.#heldUntilSeconds) await this.#openFence();
  }

  /** Takes no new sandboxes from now on. The existing ones continue. */
  async giveUp(): Promise<void> {
    if (this.#timer) clearInterval(this.#timer);
    await this.#renewing;
    const asked = uptimeSeconds();
    await endLease(this.#connection.run, this.#describe().hostId, awaySeconds);
    await this.#fence.keepOpenUntil(asked + awaySeconds * fencedAfter);
    this.#connection.close();
  }

  #tick(): void {
    this.#renewing ??= this.#renewAgain()
      .catch((error) => this.#logger.warn({ err: error }, 'the lease could not be renewed; trying again'))
      .finally(() => {
        this.#renewing = null;
      });
  }

  async #renewAgain(): Promise<void> {
    const { lost } = await this.#renew();
    if (!lost) await this.#openFence();
    else if (this.#offers) this.#onLost();
  }

  async #renew(): Promise<{ lost: boolean }> {
    // The clock is read before the query, so that the local expiry is never later than the database's.
    const asked = uptimeSeconds();
    const lease = { seconds: this.#leaseSeconds, offers: this.#offers };
    const { lost } = await renewLease(this.#connection.run, this.#describe(), lease);
    if (!lost) {
      this.#heldUntilSeconds = asked + this.#leaseSeconds * fencedAfter;
      await this.#fence.keepOpenUntil(this.#heldUntilSeconds);
    }
    return { lost };
  }

  async #openFence(): Promise<void> {
    if (!this.#fence.isClosed || !(await this.#fence.open())) return;
    this.#logger.warn('sandboxes were frozen, because the lease or room on the disk was missing; they continue');
  }
}
