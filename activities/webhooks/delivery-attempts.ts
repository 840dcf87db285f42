import type { DeliveryResult, HeldDelivery } from '../../db/webhooks/held-delivery.ts';
import { formatBody, judge } from '../../domain/webhooks/delivery.ts';
import { retrySpacingMs } from '../../domain/webhooks/schedule.ts';
import { InFlight, type InFlightLimits } from '../../integrations/webhooks/in-flight.ts';
import type { WebhookKeys } from '../../integrations/webhooks/keys.ts';
import type { WebhookSender } from '../../integrations/webhooks/sender.ts';
import { signedHeaders } from '../../integrations/webhooks/signature.ts';

/** A finished attempt. It keeps its slot until its result is recorded. */
export interface Attempt {
  result: DeliveryResult;
  release(): void;
}

/** Attempts at held deliveries, of a relay or of workflows: each takes a slot, sends and judges. */
export class DeliveryAttempts {
  readonly inFlight: InFlight;
  readonly #webhooks: { keys: WebhookKeys; sender: WebhookSender };

  constructor(deps: { webhooks: { keys: WebhookKeys; sender: WebhookSender }; limits: InFlightLimits }) {
    this.inFlight = new InFlight(deps.limits);
    this.#webhooks = deps.webhooks;
  }

  /**
   * Makes the next attempt at a delivery. Without an endpoint, the delivery has failed.
   * @param begin runs before the request
   * @returns null if there is no free slot
   */
  async attempt(held: HeldDelivery, begin?: () => Promise<void>): Promise<Attempt | null> {
    const { endpoint } = held;
    if (!endpoint) {
      const error = 'The webhook is deleted or not active';
      return { result: { held, kind: 'given_up', error }, release: () => {} };
    }
    const slot = this.inFlight.enter(held.endpointId, held.accountId);
    if (!slot) return null;
    try {
      await begin?.();
      const body = formatBody(held.event);
      const message = { id: held.event.eventId, body };
      // Every attempt has a new signature.
      const headers = await signedHeaders(this.#webhooks.keys, endpoint, message, new Date());
      const { url, timeoutSeconds } = endpoint;
      const outcome = await this.#webhooks.sender.send({ url, headers, body, timeoutSeconds });
      slot.answered();
      const attempt = held.attemptNumber - held.roundFrom + 1;
      const spacingMs = retrySpacingMs(attempt, Math.random());
      const verdict = judge(outcome, { attempt, maxRetries: endpoint.maxRetries, spacingMs });
      return { result: { held, kind: 'attempted', outcome, verdict }, release: slot.release };
    } catch (error) {
      slot.release();
      throw error;
    }
  }
}
