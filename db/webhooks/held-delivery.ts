import type { AccountId, EventId, WebhookDeliveryId, WebhookEndpointId } from '../../domain/ids.ts';
import type { AttemptOutcome, DeliveredEvent, DeliveryStatus, Verdict } from '../../domain/webhooks/delivery.ts';
import type { WebhookEndpoint } from './webhook-endpoint.entity.ts';

export interface DeliveryRow {
  delivery_id: WebhookDeliveryId;
  created_at: string;
  endpoint_id: WebhookEndpointId;
  account_id: AccountId;
  event_id: EventId;
  event_type: string;
  event_at: string;
  data: Record<string, unknown>;
  status: DeliveryStatus;
  http_status_code: number | null;
  attempt_number: number;
  max_attempts: number;
  next_retry_at: string | null;
  delivered_at: string | null;
  failed_at: string | null;
  error_message: string | null;
  /** The first attempt comes first. */
  attempts: AttemptOutcome[];
  relay_at: string | null;
  holder: string | null;
  round: number;
  round_from: number;
}

/** A delivery that a relay or a workflow currently holds. */
export interface HeldDelivery {
  deliveryId: WebhookDeliveryId;
  createdAt: Date;
  accountId: AccountId;
  endpointId: WebhookEndpointId;
  holder: string;
  status: DeliveryStatus;
  attemptNumber: number;
  round: number;
  roundFrom: number;
  event: DeliveredEvent;
  /** The current endpoint. Null: it is deleted or disabled, or its user is disabled. */
  endpoint: WebhookEndpoint | null;
}

/** The result of a held delivery. */
export type DeliveryResult =
  | { held: HeldDelivery; kind: 'attempted'; outcome: AttemptOutcome; verdict: Verdict }
  /** The delivery ends without an attempt. */
  | { held: HeldDelivery; kind: 'given_up'; error: string }
  /** A workflow also makes the first attempt. */
  | { held: HeldDelivery; kind: 'handed_over' };

/** The key of a delivery's row. */
export const toKeyColumns = ({ deliveryId, createdAt }: HeldDelivery) => ({
  delivery_id: deliveryId,
  created_at: createdAt,
});
