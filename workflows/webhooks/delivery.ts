import {
  CancellationScope,
  isCancellation,
  patched,
  proxyActivities,
  setCurrentDetails,
  sleep,
} from '@temporalio/workflow';
import type { DeliveryResult, WebhookDeliveryActivities } from '../../activities/webhooks/deliveries.ts';
import type { DeliveryStatus } from '../../domain/webhooks/delivery.ts';
import { retrySpacingMs } from '../../domain/webhooks/schedule.ts';
import type { WebhookDeliveryInput } from '../../domain/workflow-registry.ts';
import { outside } from '../activity-profiles.ts';

const { deliver } = proxyActivities<WebhookDeliveryActivities>(outside.webhook);
const { attemptDelivery, giveUpDelivery } = proxyActivities<WebhookDeliveryActivities>(outside.webhookAttempt);

/**
 * Delivers an event to an endpoint after the first attempt failed, until the event is delivered or the attempts are
 * used up. Each attempt is a try of one activity, and Temporal keeps the time of the next: that is a third of the work
 * of a timer and an activity for each. The workflow starts when its first attempt is due. The activity reads the
 * endpoint on each attempt, so a changed endpoint applies from the next attempt on. A delivery that an operator cancels
 * has failed, and may be sent again. The workflow id is `whd-…`, and `whd-…/2` and so on if the event is sent again
 * later.
 */
export async function webhookDelivery(input: WebhookDeliveryInput): Promise<DeliveryStatus | 'superseded'> {
  try {
    if (!patched('attempts-are-tries-of-one-activity')) return await deliverByTimers(input);
    const { deliveryId, createdAt, holder } = input;
    setCurrentDetails('attempts under way: the pending activity has the time of the next one');
    return ended(await deliver({ deliveryId, createdAt, holder }));
  } catch (error) {
    if (!isCancellation(error)) throw error;
    const { deliveryId, createdAt, holder } = input;
    return CancellationScope.nonCancellable(() => giveUpDelivery({ deliveryId, createdAt, holder }));
  }
}

function ended(result: DeliveryResult): DeliveryResult['status'] {
  const reason = 'error' in result && result.error ? `; the last one failed: ${result.error}` : '';
  setCurrentDetails(`${result.status}${reason}`);
  return result.status;
}

/** Of earlier releases. */
async function deliverByTimers(input: WebhookDeliveryInput): Promise<DeliveryStatus | 'superseded'> {
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
    if (result.status !== 'retrying') return ended(result);
    reason = result.error ? `; the last one failed: ${result.error}` : '';
    dueAtMs = Date.now() + result.waitMs;
  }
}
