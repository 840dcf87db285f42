import { CancellationScope, isCancellation, proxyActivities, setCurrentDetails, sleep } from '@temporalio/workflow';
import type { WebhookDeliveryActivities } from '../activities/webhook-deliveries.ts';
import type { DeliveryStatus } from '../domain/webhook-delivery.ts';
import { retrySpacingMs } from '../domain/webhook-schedule.ts';
import type { WebhookDeliveryInput } from '../domain/workflow-registry.ts';
import { outside } from './activity-profiles.ts';

const { attemptDelivery, giveUpDelivery } = proxyActivities<WebhookDeliveryActivities>(outside.webhook);

/**
 * Delivers an event to an endpoint after the first attempt failed: waits and tries again until the event is delivered
 * or the attempts are used up. The activity reads the endpoint on each attempt, so a changed endpoint applies from the
 * next attempt on. A delivery that an operator cancels has failed, and may be sent again. The workflow id is `whd-…`, and `whd-…/2` and so on if the event is sent again later.
 */
export async function webhookDelivery(input: WebhookDeliveryInput): Promise<DeliveryStatus | 'superseded'> {
  try {
    return await deliver(input);
  } catch (error) {
    if (!isCancellation(error)) throw error;
    const { deliveryId, createdAt, holder } = input;
    return CancellationScope.nonCancellable(() => giveUpDelivery({ deliveryId, createdAt, holder }));
  }
}

async function deliver(input: WebhookDeliveryInput): Promise<DeliveryStatus | 'superseded'> {
  const { deliveryId, createdAt, holder, roundFrom } = input;
  let dueAtMs = input.nextAttemptAtMs;
  let reason = '';
  for (let attempt = input.attemptsBefore + 1; ; attempt += 1) {
    const waitMs = dueAtMs - Date.now();
    if (waitMs > 0) {
      setCurrentDetails(`attempt ${attempt} at ${new Date(dueAtMs).toISOString()}${reason}`);
      await sleep(waitMs, { summary: `until attempt ${attempt}` });
    }
    setCurrentDetails(`attempt ${attempt} under way`);
    const spacingMs = retrySpacingMs(attempt - roundFrom, Math.random());
    const result = await attemptDelivery({ deliveryId, createdAt, holder, attempt, spacingMs });
    reason = 'error' in result && result.error ? `; the last one failed: ${result.error}` : '';
    if (result.status !== 'retrying') {
      setCurrentDetails(`${result.status}${reason}`);
      return result.status;
    }
    dueAtMs = Date.now() + result.waitMs;
  }
}
