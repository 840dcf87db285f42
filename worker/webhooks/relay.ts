import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type { Logger } from 'pino';
import { DeliveryAttempts } from '../../activities/webhooks/delivery-attempts.ts';
import { NotificationListener } from '../../db/core/notification-listener.ts';
import type { Orm } from '../../db/orm.ts';
import type { DeliveryResult, HeldDelivery } from '../../db/webhooks/held-delivery.ts';
import { claimDeliveries, renewDeliveries } from '../../db/webhooks/webhook-queue.ts';
import { recordResults } from '../../db/webhooks/webhook-results.ts';
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
  #results: { result: DeliveryResult; written: () => void }[] = [];
  #writing: Promise<void> | null = null;
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
    this.#attempts = new DeliveryAttempts({
      webhooks: deps.webhooks,
      limits: firstAttemptLimits,
      record: (result) => this.#record(result),
    });
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
    this.#running ??= Promise.all([this.#claimAll(), this.#renewAll()]);
  }

  /** Claims no more deliveries and waits a moment for requests in flight. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    this.#wakeUp();
    await this.#listener.close();
    await this.#running;
    const deadlineMs = Date.now() + stopMs;
    while (this.#held.size > 0 && Date.now() < deadlineMs) await delay(20);
    // Postgres may be away for longer. An attempt without a written result is repeated.
    await Promise.race([this.#writing, delay(Math.max(0, deadlineMs - Date.now()), undefined, { ref: false })]);
  }

  async #claimAll(): Promise<void> {
    const { signal } = this.#stopping;
    while (!signal.aborted) {
      this.#isAwake = false;
      let claimed = 0;
      try {
        claimed = await this.#claim();
      } catch (error) {
        this.#logger.warn({ err: error }, 'webhook relay could not work; trying again');
      }
      if (claimed === 0) await this.#untilWoken();
    }
  }

  /** @returns the number of claimed deliveries */
  async #claim(): Promise<number> {
    const { inFlight } = this.#attempts;
    const limit = Math.min(batchSize, inFlight.freeTotal);
    if (limit <= 0) return 0;
    const { perEndpoint, perAccount } = firstAttemptLimits;
    const wanted = { limit, perEndpoint, perAccount, freeSlots: inFlight.freeSlotsByOwner() };
    const claimed = await claimDeliveries(this.#orm.em, this.#holder, wanted);
    for (const held of claimed) {
      // If the lease of a delivery has expired during its attempt, the delivery is still in flight.
      if (this.#held.has(held.deliveryId)) continue;
      this.#held.set(held.deliveryId, held);
      this.#deliver(held)
        // When the lease has expired, this or another relay takes the delivery.
        .catch((err) =>
          this.#logger.error({ err, deliveryId: held.deliveryId }, 'a webhook delivery could not be attempted'),
        )
        .finally(() => {
          this.#held.delete(held.deliveryId);
          this.#wakeUp();
        });
    }
    return claimed.length;
  }

  async #deliver(held: HeldDelivery): Promise<void> {
    const isUnhealthy = held.endpoint !== null && held.endpoint.consecutiveFailures >= failuresUntilUnhealthy;
    if (!isUnhealthy && (await this.#attempts.attempt(held))) return;
    // The workflow can wait until there is a free slot.
    await this.#record({ held, kind: 'handed_over' });
  }

  #record(result: DeliveryResult): Promise<void> {
    return new Promise((resolve) => {
      this.#results.push({ result, written: resolve });
      this.#writing ??= this.#writeAll();
    });
  }

  /**
   * Writes outcomes as they arrive, batch by batch, until there are none. Each write frees slots for more requests. So
   * a killed relay leaves at most as many unwritten outcomes as it may have requests in flight. Postgres may be away
   * for a while.
   */
  async #writeAll(): Promise<void> {
    while (this.#results.length > 0) {
      const results = this.#results.splice(0, batchSize);
      try {
        await recordResults(
          this.#orm.em,
          results.map(({ result }) => result),
        );
      } catch (error) {
        this.#results.unshift(...results);
        this.#logger.warn({ err: error }, 'results of webhook deliveries could not be written; trying again');
        await delay(retryMs);
        continue;
      }
      for (const { written } of results) written();
    }
    this.#writing = null;
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
