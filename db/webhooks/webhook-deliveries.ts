import type { EntityManager } from '@mikro-orm/postgresql';
import { AppError, notFound } from '../../domain/errors.ts';
import { testEventType } from '../../domain/event-types.ts';
import type { EventId, WebhookDeliveryId, WebhookEndpointId } from '../../domain/ids.ts';
import type { AttemptOutcome, DeliveryStatus } from '../../domain/webhooks/delivery.ts';
import { newId } from '../core/new-id.ts';
import { query } from '../core/query.ts';
import type { DeliveryRow } from './held-delivery.ts';
import type { WebhookEndpoint } from './webhook-endpoint.entity.ts';

/** An event on its way to an endpoint. */
export interface WebhookDelivery {
  deliveryId: WebhookDeliveryId;
  eventId: EventId;
  eventType: string;
  status: DeliveryStatus;
  httpStatusCode: number | null;
  attemptNumber: number;
  maxAttempts: number;
  nextRetryAt: Date | null;
  deliveredAt: Date | null;
  failedAt: Date | null;
  errorMessage: string | null;
  createdAt: Date;
  /** The first attempt comes first. */
  attempts: AttemptOutcome[];
}

/** The newest deliveries to an endpoint. The caller of this function has checked access to the endpoint. */
export async function listDeliveries(
  em: EntityManager,
  endpointId: WebhookEndpointId,
  limit: number,
): Promise<WebhookDelivery[]> {
  const rows = await query<DeliveryRow>(
    em,
    'select * from webhook_deliveries where endpoint_id = ? order by created_at desc, delivery_id limit ?',
    [endpointId, limit],
  );
  return rows.map(readDelivery);
}

export async function findDelivery(
  em: EntityManager,
  endpointId: WebhookEndpointId,
  deliveryId: WebhookDeliveryId,
): Promise<WebhookDelivery | null> {
  const [row] = await query<DeliveryRow>(
    em,
    'select * from webhook_deliveries where delivery_id = ? and endpoint_id = ?',
    [deliveryId, endpointId],
  );
  return row ? readDelivery(row) : null;
}

/** Sends an event without content to an endpoint. @throws {AppError} `webhook_not_active` */
export async function addTestDelivery(
  em: EntityManager,
  endpoint: WebhookEndpoint,
  deliveryId: WebhookDeliveryId,
): Promise<WebhookDelivery> {
  requireActive(endpoint);
  const [row] = await query<DeliveryRow>(
    em,
    `insert into webhook_deliveries (delivery_id, endpoint_id, account_id, event_id, event_type, event_at, data, max_attempts)
     values (?, ?, ?, ?, ?, clock_timestamp(), ?::jsonb, ?) returning *`,
    [
      ...[deliveryId, endpoint.endpointId, endpoint.accountId, newId('event'), testEventType],
      ...[JSON.stringify({ endpoint_id: endpoint.endpointId }), endpoint.maxRetries + 1],
    ],
  );
  await query(em, 'notify webhook_deliveries');
  return readDelivery(row!);
}

/**
 * Repeats an ended delivery: the same event with the same id, with retries as for a new one.
 * @throws {AppError} `not_found`, `webhook_not_active`, `delivery_in_progress`
 */
export async function redeliver(
  em: EntityManager,
  endpoint: WebhookEndpoint,
  deliveryId: WebhookDeliveryId,
): Promise<WebhookDelivery> {
  requireActive(endpoint);
  const [row] = await query<DeliveryRow>(
    em,
    `update webhook_deliveries set status = 'pending', relay_at = clock_timestamp(), holder = null, round = round + 1,
            round_from = attempt_number, max_attempts = attempt_number + ?, next_retry_at = null, delivered_at = null,
            failed_at = null, error_message = null
      where delivery_id = ? and endpoint_id = ? and status in ('delivered', 'failed') returning *`,
    [endpoint.maxRetries + 1, deliveryId, endpoint.endpointId],
  );
  if (!row) {
    if (!(await findDelivery(em, endpoint.endpointId, deliveryId))) throw notFound('Delivery');
    throw new AppError('delivery_in_progress', 'The delivery has not ended yet');
  }
  await query(em, 'notify webhook_deliveries');
  return readDelivery(row);
}

function requireActive({ isActive }: WebhookEndpoint): void {
  if (!isActive) throw new AppError('webhook_not_active', 'The webhook is not active; set is_active first');
}

function readDelivery(row: DeliveryRow): WebhookDelivery {
  const time = (value: string | null) => (value === null ? null : new Date(value));
  return {
    deliveryId: row.delivery_id,
    eventId: row.event_id,
    eventType: row.event_type,
    status: row.status,
    httpStatusCode: row.http_status_code,
    attemptNumber: row.attempt_number,
    maxAttempts: row.max_attempts,
    nextRetryAt: time(row.next_retry_at),
    deliveredAt: time(row.delivered_at),
    failedAt: time(row.failed_at),
    errorMessage: row.error_message,
    createdAt: new Date(row.created_at),
    attempts: row.attempts,
  };
}
