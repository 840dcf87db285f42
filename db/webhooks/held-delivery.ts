import type { AccountId, WebhookDeliveryId, WebhookEndpointId } from '../../domain/ids.ts';
import type { AttemptOutcome, DeliveredEvent, DeliveryStatus, Verdict } from '../../domain/webhooks/delivery.ts';
import type { WebhookEndpoint } from './webhook-endpoint.entity.ts';

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
export const keysOf = ({ deliveryId, createdAt }: HeldDelivery) => ({ delivery_id: deliveryId, created_at: createdAt });
