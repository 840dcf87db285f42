import { CancellationScope, isCancellation, proxyActivities, setCurrentDetails } from '@temporalio/workflow';
import type { WebhookDeliveryActivities } from '../../activities/webhooks/deliveries.ts';
import type { DeliveryStatus } from '../../domain/webhooks/delivery.ts';
import type { WebhookDeliveryInput } from '../../domain/workflow-registry.ts';
import { outside } from '../activity-profiles.ts';

const { deliver } = proxyActivities<WebhookDeliveryActivities>(outside.webhook);
const { giveUpDelivery } = proxyActivities<WebhookDeliveryActivities>(outside.webhookCancel);

/**
 * Delivers an event to an endpoint after the first attempt failed, until the event is delivered or the attempts are
 * used up. Each attempt is a try of one activity, and Temporal keeps the time of the next: that is a third of the work
 * of a timer and an activity for each. The workflow starts when its first attempt is due. The activity reads the
 * endpoint on each attempt, so a changed endpoint applies from the next attempt on. A delivery that an operator cancels
 * has failed, and may be sent again. The workflow id is `whd-…`, and `whd-…/2` and so on if the event is sent again
 * later.
 */
export async function webhookDelivery(input: WebhookDeliveryInput): Promise<DeliveryStatus | 'superseded'> {
  const { deliveryId, createdAt, holder } = input;
  try {
    setCurrentDetails('attempts under way: the pending activity has the time of the next one');
    const result = await deliver({ deliveryId, createdAt, holder });
    const reason = result.status === 'failed' && result.error ? `; the last one failed: ${result.error}` : '';
    setCurrentDetails(`${result.status}${reason}`);
    return result.status;
  } catch (error) {
    if (!isCancellation(error)) throw error;
    return CancellationScope.nonCancellable(() => giveUpDelivery({ deliveryId, createdAt, holder }));
  }
}
