import type { DeliveryResult, HeldDelivery } from '../../db/webhooks/held-delivery.ts';
import { formatBody, judge } from '../../domain/webhooks/delivery.ts';
import { retrySpacingMs } from '../../domain/webhooks/schedule.ts';
import { InFlight, type InFlightLimits } from '../../integrations/webhooks/in-flight.ts';
import type { WebhookKeys } from '../../integrations/webhooks/keys.ts';
import type { WebhookSender } from '../../integrations/webhooks/sender.ts';
import { signedHeaders } from '../../integrations/webhooks/signature.ts';

/** Attempts at held deliveries, of a relay or of workflows: each takes a slot, sends, judges and records. */
export class DeliveryAttempts {
  readonly inFlight: InFlight;
  readonly #webhooks: { keys: WebhookKeys; sender: WebhookSender };
  readonly #record: (result: DeliveryResult) => Promise<void>;

  /** @param deps.record resolves when the result is written, because an attempt keeps its slot until then */
  constructor(deps: {
    webhooks: { keys: WebhookKeys; sender: WebhookSender };
    limits: InFlightLimits;
    record: (result: DeliveryResult) => Promise<void>;
  }) {
    this.inFlight = new InFlight(deps.limits);
    this.#webhooks = deps.webhooks;
    this.#record = deps.record;
  }

  /**
   * Makes the next attempt at a delivery, and records it. Without an endpoint, records that the delivery has failed.
   * @param begin runs before the request
   * @returns false if there is no free slot; then nothing is recorded
   */
  async attempt(held: HeldDelivery, begin?: () => Promise<void>, givenSpacingMs?: number): Promise<boolean> {
    const { endpoint } = held;
    if (!endpoint) {
      await this.#record({ held, kind: 'given_up', error: 'The webhook is deleted or not active' });
      return true;
    }
    const slot = this.inFlight.enter(held.endpointId, held.accountId);
    if (!slot) return false;
    try {
      await begin?.();
      const body = formatBody(held.event);
      const headers = signedHeaders(this.#webhooks.keys, endpoint, { id: held.event.eventId, body }, new Date());
      const { url, timeoutSeconds } = endpoint;
      // Every attempt has a new signature.
      const outcome = await this.#webhooks.sender.send({ url, headers, body, timeoutSeconds });
      slot.answered();
      const attempt = held.attemptNumber - held.roundFrom + 1;
      const spacingMs = givenSpacingMs ?? retrySpacingMs(attempt, Math.random());
      const verdict = judge(outcome, { attempt, maxRetries: endpoint.maxRetries, spacingMs });
      await this.#record({ held, kind: 'attempted', outcome, verdict });
      return true;
    } finally {
      slot.release();
    }
  }
}
