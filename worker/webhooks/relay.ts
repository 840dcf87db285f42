import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type { Logger } from 'pino';
import { type Attempt, DeliveryAttempts } from '../../activities/webhooks/delivery-attempts.ts';
import { NotificationListener } from '../../db/core/notification-listener.ts';
import type { Orm } from '../../db/orm.ts';
import type { HeldDelivery } from '../../db/webhooks/held-delivery.ts';
import { renewDeliveries, type WantedDeliveries } from '../../db/webhooks/webhook-queue.ts';
import { recordAndClaim } from '../../db/webhooks/webhook-results.ts';
import { failuresUntilUnhealthy } from '../../domain/webhooks/schedule.ts';
import { firstAttemptLimits } from '../../integrations/webhooks/in-flight.ts';
import type { WebhookKeys } from '../../integrations/webhooks/keys.ts';
import type { WebhookSender } from '../../integrations/webhooks/sender.ts';

/** The maximum number of deliveries that are claimed, or written, at once. */
const batchSize = 256;
const idleMs = 500;
const renewMs = 3000;
const retryMs = 500;
/** How long a stopping process waits for requests in flight. Other relays repeat the unfinished ones. */
const stopMs = 4000;

/**
 * Makes the first attempt at each delivery directly from its row. Any number of relays may run, and only one at a time
 * holds a delivery. If that relay dies, another one takes the delivery, so an endpoint gets each event at least once. A
 * delivery that fails becomes a workflow. For endpoints with five consecutive failures, a workflow also makes the first
 * attempt.
 */
export class WebhookRelay {
  readonly #orm: Orm;
  readonly #attempts: DeliveryAttempts;
  readonly #logger: Logger;
  readonly #listener: NotificationListener;
  readonly #holder = `relay-${randomUUID()}`;
  /** The held deliveries, until their results are written. */
  readonly #held = new Map<string, HeldDelivery>();
  readonly #stopping = new AbortController();
  /** Attempts whose results are not written yet. */
  #finished: Attempt[] = [];
  #stopAtMs = Number.POSITIVE_INFINITY;
  #running: Promise<unknown> | null = null;
  #wake: () => void = () => {};
  #isAwake = false;

  constructor(deps: {
    orm: Orm;
    databaseUrl: string;
    webhooks: { keys: WebhookKeys; sender: WebhookSender };
    logger: Logger;
  }) {
    this.#orm = deps.orm;
    this.#attempts = new DeliveryAttempts({ webhooks: deps.webhooks, limits: firstAttemptLimits });
    this.#logger = deps.logger;
    this.#listener = new NotificationListener({
      databaseUrl: deps.databaseUrl,
      channel: 'webhook_deliveries',
      logger: deps.logger,
      onNotification: () => this.#wakeUp(),
      onLiveChange: () => this.#wakeUp(),
    });
  }

  start(): void {
    this.#listener.start();
    this.#running ??= Promise.all([this.#relayAll(), this.#renewAll()]);
  }

  /** Claims no more deliveries and waits a moment for requests in flight. */
  async stop(): Promise<void> {
    this.#stopAtMs = Date.now() + stopMs;
    this.#stopping.abort();
    this.#wakeUp();
    await this.#listener.close();
    // Postgres may be away for longer. An attempt without a written result is repeated.
    await Promise.race([this.#running, delay(stopMs, undefined, { ref: false })]);
  }

  /** Until it is stopped, and then until all results are written. */
  async #relayAll(): Promise<void> {
    while (!this.#stopping.signal.aborted || (this.#held.size > 0 && Date.now() < this.#stopAtMs)) {
      this.#isAwake = false;
      if (!(await this.#relay())) await this.#untilWoken();
    }
  }

  /**
   * Writes the results of finished attempts, and claims deliveries for the slots that become free, in one transaction.
   * So a killed relay leaves at most as many unwritten results as it may have requests in flight. Postgres may be away
   * for a while.
   * @returns whether more deliveries may be due now
   */
  async #relay(): Promise<boolean> {
    const finished = this.#finished.splice(0, batchSize);
    // Their slots are for the deliveries that the same transaction claims. If it fails, none is claimed.
    for (const each of finished) each.release();
    const wanted = this.#wantedDeliveries();
    let claimed: HeldDelivery[];
    try {
      const results = finished.map(({ result }) => result);
      claimed = await recordAndClaim(this.#orm.em, results, wanted);
    } catch (error) {
      this.#finished.unshift(...finished);
      this.#logger.warn({ err: error }, 'webhook relay could not work; trying again');
      await delay(retryMs);
      return true;
    }
    for (const held of claimed) this.#begin(held);
    for (const { result } of finished) this.#held.delete(result.held.deliveryId);
    return this.#finished.length > 0 || (claimed.length > 0 && claimed.length === wanted.limit);
  }

  #wantedDeliveries(): WantedDeliveries {
    const { inFlight } = this.#attempts;
    const { perEndpoint, perAccount } = firstAttemptLimits;
    const limit = this.#stopping.signal.aborted ? 0 : Math.min(batchSize, inFlight.freeTotal);
    return { holder: this.#holder, limit, perEndpoint, perAccount, freeSlots: inFlight.freeSlotsByOwner() };
  }

  #begin(held: HeldDelivery): void {
    // If the lease of a delivery has expired during its attempt, the delivery is still in flight.
    if (this.#held.has(held.deliveryId)) return;
    this.#held.set(held.deliveryId, held);
    this.#attempt(held).then(
      (attempt) => {
        this.#finished.push(attempt);
        this.#wakeUp();
      },
      (err) => {
        // When the lease has expired, this or another relay takes the delivery.
        this.#held.delete(held.deliveryId);
        this.#logger.error({ err, deliveryId: held.deliveryId }, 'a webhook delivery could not be attempted');
      },
    );
  }

  async #attempt(held: HeldDelivery): Promise<Attempt> {
    const isUnhealthy = held.endpoint !== null && held.endpoint.consecutiveFailures >= failuresUntilUnhealthy;
    const attempt = isUnhealthy ? null : await this.#attempts.attempt(held);
    // The workflow can wait until there is a free slot.
    return attempt ?? { result: { held, kind: 'handed_over' }, release: () => {} };
  }

  async #renewAll(): Promise<void> {
    const { signal } = this.#stopping;
    while (!signal.aborted) {
      await delay(renewMs, undefined, { signal }).catch(() => undefined);
      await renewDeliveries(this.#orm.em, this.#holder, [...this.#held.values()]).catch((error) =>
        this.#logger.warn(
          { err: error },
          'the leases of webhook deliveries could not be renewed; other relays may repeat the deliveries',
        ),
      );
    }
  }

  #wakeUp(): void {
    this.#isAwake = true;
    this.#wake();
  }

  async #untilWoken(): Promise<void> {
    if (this.#isAwake) return;
    const timeout = new AbortController();
    const woken = new Promise<void>((resolve) => {
      this.#wake = resolve;
    });
    await Promise.race([woken, delay(idleMs, undefined, { signal: timeout.signal }).catch(() => undefined)]);
    timeout.abort();
  }
}
