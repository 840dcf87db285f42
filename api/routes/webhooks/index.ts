import type { Api, ApiDependencies } from '../../dependencies.ts';
import { createWebhook } from './create.ts';
import { deleteWebhook } from './delete.ts';
import { getDelivery } from './deliveries-get.ts';
import { listDeliveries } from './deliveries-list.ts';
import { redeliverDelivery } from './deliveries-redeliver.ts';
import { listEventTypes } from './event-types.ts';
import { getWebhook } from './get.ts';
import { listWebhooks } from './list.ts';
import { rollSecret } from './roll-secret.ts';
import { sendTestEvent } from './send-test.ts';
import { updateWebhook } from './update.ts';

/** The routes of webhooks. */
export const webhookRoutes: readonly ((api: Api, deps: ApiDependencies) => void)[] = [
  createWebhook,
  listWebhooks,
  listEventTypes,
  getWebhook,
  updateWebhook,
  deleteWebhook,
  rollSecret,
  sendTestEvent,
  listDeliveries,
  getDelivery,
  redeliverDelivery,
];
