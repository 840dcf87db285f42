import type { Logger } from 'pino';
import { LeaseConnection } from '../db/lease-connection.ts';
import { endLease, type HostRegistration, renewLease } from '../db/repositories/hosts.ts';
import type { HostFence } from '../runtime/host-driver.ts';
import { uptimeSeconds } from '../runtime/uptime.ts';

/**
 * Of a lease's length: its sandboxes stand still when it was not renewed for this long, well before anybody takes the
 * host for lost.
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

  /** @param deps.onLost the host was given up: its sandboxes are failed, and it must begin anew */
  constructor(deps: {
    databaseUrl: string;
    /** Asked at each renewal: what a disk can hold changes. */
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
   * Keeps what is on this host, without offering room for more yet.
   * @returns whether it was given up before; then its sandboxes stand still until `offer`
   * @throws when Postgres cannot be reached
   */
  async hold(): Promise<{ lost: boolean }> {
    const { lost } = await this.#renew();
    if (!lost) await this.#letRun();
    this.#timer = setInterval(() => this.#tick(), (this.#leaseSeconds * 1000) / 4);
    return { lost };
  }

  /** From now on new sandboxes may come. Whatever was on a host that had been given up is cleaned by now. */
  async offer(): Promise<void> {
    await this.#renewing;
    this.#offers = true;
    if ((await this.#renew()).lost) this.#onLost();
    else await this.#letRun();
  }

  /** Lets sandboxes go on that stand still, if the lease lasts. */
  async letRunIfHeld(): Promise<void> {
    if (uptimeSeconds() < this.#heldUntilSeconds) await this.#letRun();
  }

  /** From now on no new sandboxes come here. Those that are here go on. */
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
    // Before it is asked for: whatever the database then grants ends later than what is counted on here.
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
