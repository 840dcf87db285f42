import type { Api, ApiDependencies } from '../../dependencies.ts';
import { getDelivery, listDeliveries, redeliverDelivery, sendTestEvent } from './deliveries.ts';
import { createWebhook, deleteWebhook, getWebhook, listWebhooks, rollSecret, updateWebhook } from './endpoints.ts';
import { streamEvents } from './event-stream.ts';
import { listEventTypes } from './event-types.ts';
import { listNewestEvents } from './newest-events.ts';

/** The routes of webhooks. */
export const webhookRoutes: readonly ((api: Api, deps: ApiDependencies) => void)[] = [
  createWebhook,
  listWebhooks,
  listEventTypes,
  listNewestEvents,
  streamEvents,
  getWebhook,
  updateWebhook,
  deleteWebhook,
  rollSecret,
  sendTestEvent,
  listDeliveries,
  getDelivery,
  redeliverDelivery,
];
