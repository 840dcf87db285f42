import type { Logger } from 'pino';
import { LeaseConnection } from '../db/lease-connection.ts';
import { endLease, type HostRegistration, renewLease } from '../db/repositories/hosts.ts';
import type { HostFence } from '../runtime/host-driver.ts';
import { uptimeSeconds } from '../runtime/uptime.ts';

/**
 * Share of the lease's length: sandboxes are frozen when the lease was not renewed for this long, well before the host
 * is given up.
 */
const fencedAfter = 0.8;
/** A host that stops in order (an upgrade, a reboot) keeps its sandboxes for this long. */
export const awaySeconds = 900;

/** Keeps a host's lease alive as long as the process is, and its sandboxes running only as long as the lease is. */
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

  /** @param deps.onLost called when the host was given up: its sandboxes have failed, and it must start anew */
  constructor(deps: {
    databaseUrl: string;
    /** Read at each renewal: the capacity of a disk changes. */
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
   * Renews the lease without offering room yet.
   * @returns whether the host was given up before; its sandboxes then stay frozen until `offer`
   * @throws when Postgres cannot be reached
   */
  async hold(): Promise<{ lost: boolean }> {
    const { lost } = await this.#renew();
    if (!lost) await this.#letRun();
    this.#timer = setInterval(() => this.#tick(), (this.#leaseSeconds * 1000) / 4);
    return { lost };
  }

  /** Offers the host for new sandboxes. Remains of a time when it was given up must be removed before. */
  async offer(): Promise<void> {
    await this.#renewing;
    this.#offers = true;
    const renewed = this.#renewAgain();
    // A tick meanwhile does not renew beside it.
    this.#renewing = renewed
      .catch(() => {})
      .finally(() => {
        this.#renewing = null;
      });
    await renewed;
  }

  /** Thaws the sandboxes that were frozen for the lease, if the lease is valid. */
  async letRunIfHeld(): Promise<void> {
    if (uptimeSeconds() < this.#heldUntilSeconds) await this.#letRun();
  }

  /** Takes no new sandboxes from now on. The present ones continue. */
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
    if (!lost) await this.#letRun();
    else if (this.#offers) this.#onLost();
  }

  async #renew(): Promise<{ lost: boolean }> {
    // Read the clock before the query, so the local expiry is never later than the database's.
    const asked = uptimeSeconds();
    const lease = { seconds: this.#leaseSeconds, offers: this.#offers };
    const { lost } = await renewLease(this.#connection.run, this.#describe(), lease);
    if (!lost) {
      this.#heldUntilSeconds = asked + this.#leaseSeconds * fencedAfter;
      await this.#fence.keepOpenUntil(this.#heldUntilSeconds);
    }
    return { lost };
  }

  async #letRun(): Promise<void> {
    if (!this.#fence.isClosed || !(await this.#fence.open())) return;
    this.#logger.warn('sandboxes stood still, for want of a lease or of room on the disk; they go on');
  }
}
