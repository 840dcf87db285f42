import type { EntityManager } from '@mikro-orm/postgresql';
import type { FastifyRequest } from 'fastify';
import type { WebhookEndpoint } from '../../../db/webhooks/webhook-endpoint.entity.ts';
import { findWebhookEndpoint } from '../../../db/webhooks/webhook-endpoints.ts';
import { notFound } from '../../../domain/errors.ts';
import type { WebhookEndpointId } from '../../../domain/ids.ts';
import { scopeOf } from '../../access.ts';

/** The endpoint in the request. @throws {AppError} `not_found` */
export async function readWebhook(
  em: EntityManager,
  request: FastifyRequest,
  endpointId: WebhookEndpointId,
): Promise<WebhookEndpoint> {
  const endpoint = await findWebhookEndpoint(em, scopeOf(request), endpointId);
  if (!endpoint) throw notFound('Webhook endpoint');
  return endpoint;
}
