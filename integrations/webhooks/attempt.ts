import { type AttemptOutcome, bodyOf, type DeliveredEvent } from '../../domain/webhooks/delivery.ts';
import type { WebhookKeys } from './keys.ts';
import type { WebhookSender } from './sender.ts';
import { type SigningEndpoint, signedHeaders } from './signature.ts';

/** The target of an event. */
export interface AttemptTarget extends SigningEndpoint {
  url: string;
  timeoutSeconds: number;
}

/** Sends an event once, with a new signature. */
export function attempt(
  { keys, sender }: { keys: WebhookKeys; sender: WebhookSender },
  endpoint: AttemptTarget,
  event: DeliveredEvent,
): Promise<AttemptOutcome> {
  const body = bodyOf(event);
  const headers = signedHeaders(keys, endpoint, { id: event.eventId, body }, new Date());
  return sender.send({ url: endpoint.url, headers, body, timeoutSeconds: endpoint.timeoutSeconds });
}
