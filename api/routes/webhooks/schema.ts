import type { EntityManager } from '@mikro-orm/postgresql';
import type { FastifyRequest } from 'fastify';
import { z } from 'zod';
import type { Identity } from '../../../db/accounts/identities.ts';
import type { WebhookDelivery } from '../../../db/webhooks/webhook-deliveries.ts';
import type { WebhookEndpoint } from '../../../db/webhooks/webhook-endpoint.entity.ts';
import { findWebhookEndpoint } from '../../../db/webhooks/webhook-endpoints.ts';
import { notFound } from '../../../domain/errors.ts';
import type { WebhookEndpointId } from '../../../domain/ids.ts';
import { requireScope } from '../../access.ts';
import { givenId, time } from '../../schemas/fields.ts';

/** An endpoint in every reply. No reply contains its secret. */
export const webhookSchema = z
  .object({
    endpoint_id: z.string(),
    url: z.string(),
    event_types: z.array(z.string()),
    is_active: z.boolean(),
    disabled_reason: z
      .enum(['gone', 'failing'])
      .nullable()
      .describe('Why the platform disabled it: it replied 410, or failed for five days'),
    description: z.string(),
    scope: z.enum(['user', 'account']),
    timeout_seconds: z.int().describe('For one whole attempt, including the reply'),
    max_retries: z.int(),
    public_key: z.string().describe('`whpk_…`: verifies the `v1a` signatures (ed25519)'),
    has_secret: z.boolean().describe('Requests carry a `v1` signature (HMAC) as well'),
    total_deliveries: z
      .int()
      .describe('Deliveries that have ended or have an attempt; a repeated delivery counts again'),
    successful_deliveries: z.int(),
    failed_deliveries: z.int().describe('Deliveries that finally failed'),
    last_delivery_at: time().nullable(),
    last_success_at: time().nullable(),
    last_failure_at: time().nullable(),
    created_at: time(),
    updated_at: time(),
    user_id: z.string().nullable().describe('The user whose events it receives; null: all users of the account'),
    account_id: z.string().optional().describe('For root users'),
  })
  .meta({ id: 'Webhook' });

const attemptSchema = z.object({
  started_at: time(),
  duration_ms: z.int(),
  http_status_code: z.int().nullable(),
  error: z.string().nullable().describe('Why the attempt failed'),
  reply: z.string().nullable().describe('The beginning of the reply: 4 KiB, in lists 256 characters'),
});

export const deliverySchema = z
  .object({
    delivery_id: z.string(),
    event_type: z.string(),
    event_id: z.string().describe('Sent as `webhook-id`, the same with every attempt'),
    status: z.enum(['pending', 'delivering', 'retrying', 'delivered', 'failed']),
    http_status_code: z.int().nullable(),
    attempt_number: z.int().describe('The number of the latest ended attempt; 0: none has ended'),
    max_attempts: z.int(),
    next_retry_at: time().nullable(),
    delivered_at: time().nullable(),
    failed_at: time().nullable(),
    error_message: z.string().nullable().describe('The error of the latest attempt'),
    created_at: time(),
    attempts: z.array(attemptSchema).describe('The latest 20, oldest first'),
  })
  .meta({ id: 'WebhookDelivery' });

/** Path of routes on one endpoint. */
export const webhookPath = z.object({ endpoint_id: givenId('webhookEndpoint').describe('`whk-…`') });

/** Path of routes on one delivery. */
export const deliveryPath = webhookPath.extend({ delivery_id: givenId('webhookDelivery').describe('`whd-…`') });

export function presentWebhook(endpoint: WebhookEndpoint, caller: Identity): z.output<typeof webhookSchema> {
  return {
    endpoint_id: endpoint.endpointId,
    url: endpoint.url,
    event_types: endpoint.eventTypes,
    is_active: endpoint.isActive,
    disabled_reason: endpoint.disabledReason ?? null,
    description: endpoint.description,
    scope: endpoint.userId ? 'user' : 'account',
    timeout_seconds: endpoint.timeoutSeconds,
    max_retries: endpoint.maxRetries,
    public_key: endpoint.publicKey,
    has_secret: Boolean(endpoint.sealedSecret),
    total_deliveries: endpoint.totalDeliveries,
    successful_deliveries: endpoint.successfulDeliveries,
    failed_deliveries: endpoint.failedDeliveries,
    last_delivery_at: endpoint.lastDeliveryAt ?? null,
    last_success_at: endpoint.lastSuccessAt ?? null,
    last_failure_at: endpoint.lastFailureAt ?? null,
    created_at: endpoint.createdAt,
    updated_at: endpoint.updatedAt,
    user_id: endpoint.userId ?? null,
    ...((caller.isRootUser || caller.role === 'admin') && { account_id: endpoint.accountId }),
  };
}

/** @param replyLength the number of characters of each reply that are shown */
export function presentDelivery(delivery: WebhookDelivery, replyLength: number): z.output<typeof deliverySchema> {
  return {
    delivery_id: delivery.deliveryId,
    event_type: delivery.eventType,
    event_id: delivery.eventId,
    status: delivery.status,
    http_status_code: delivery.httpStatusCode,
    attempt_number: delivery.attemptNumber,
    max_attempts: delivery.maxAttempts,
    next_retry_at: delivery.nextRetryAt,
    delivered_at: delivery.deliveredAt,
    failed_at: delivery.failedAt,
    error_message: delivery.errorMessage,
    created_at: delivery.createdAt,
    attempts: delivery.attempts.map((attempt) => ({
      started_at: new Date(attempt.startedAt),
      duration_ms: attempt.durationMs,
      http_status_code: attempt.httpStatus,
      error: attempt.error,
      reply: attempt.reply?.slice(0, replyLength) ?? null,
    })),
  };
}

/** The endpoint in the request. @throws {AppError} `not_found` */
export async function readWebhook(
  em: EntityManager,
  request: FastifyRequest,
  endpointId: WebhookEndpointId,
): Promise<WebhookEndpoint> {
  const endpoint = await findWebhookEndpoint(em, requireScope(request), endpointId);
  if (!endpoint) throw notFound('Webhook endpoint');
  return endpoint;
}
