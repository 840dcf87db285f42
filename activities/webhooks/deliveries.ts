import { Context } from '@temporalio/activity';
import { ApplicationFailure } from '@temporalio/common';
import type { Orm } from '../../db/orm.ts';
import type { HeldDelivery } from '../../db/webhooks/held-delivery.ts';
import { beginAttempt, findHeldDelivery } from '../../db/webhooks/webhook-queue.ts';
import { findResult, recordResults, type StoredResult } from '../../db/webhooks/webhook-results.ts';
import type { WebhookDeliveryId } from '../../domain/ids.ts';
import { retryLimits } from '../../integrations/webhooks/in-flight.ts';
import type { WebhookKeys } from '../../integrations/webhooks/keys.ts';
import type { WebhookSender } from '../../integrations/webhooks/sender.ts';
import { DeliveryAttempts } from './delivery-attempts.ts';

const heartbeatMs = 2000;
const longestBusyWaitMs = 300_000;

export interface DeliveryOfWorkflow {
  deliveryId: WebhookDeliveryId;
  createdAt: string;
  holder: string;
}

export type DeliveryResult = { status: 'delivered' | 'superseded' } | { status: 'failed'; error: string | null };

type AttemptResult = DeliveryResult | { status: 'retrying'; waitMs: number; error: string | null };

/** Retries of webhook deliveries whose first attempt failed. */
export function createWebhookDeliveryActivities(deps: {
  orm: Orm;
  webhooks: { keys: WebhookKeys; sender: WebhookSender };
}) {
  const { orm } = deps;
  const attempts = new DeliveryAttempts({ webhooks: deps.webhooks, limits: retryLimits });

  async function attemptOnce(held: HeldDelivery): Promise<void> {
    if (held.endpoint && attempts.inFlight.freeSlots(held.endpointId) <= 0) throw busy();
    const heartbeat = setInterval(() => Context.current().heartbeat(), heartbeatMs);
    try {
      const attempt = await attempts.attempt(held, () => beginAttempt(orm.em, held));
      if (!attempt) throw busy();
      await recordResults(orm.em, [attempt.result]).finally(attempt.release);
    } finally {
      clearInterval(heartbeat);
    }
  }

  return {
    /**
     * Makes the next attempt when it is due, and records it. If the worker died before it could record the attempt, the
     * attempt is repeated, so the endpoint may get the event twice.
     * @throws ApplicationFailure `attempt_failed` if another attempt follows. Temporal retries the activity then.
     */
    async deliver(wanted: DeliveryOfWorkflow): Promise<DeliveryResult> {
      const found = await findHeldDelivery(orm.em, wanted);
      if (!found) return { status: 'superseded' };
      const { held, waitMs } = found;
      if (waitMs > 0) throw failedAttempt({ waitMs, error: 'The next attempt is not due yet' });
      await attemptOnce(held);
      const result = toAttemptResult(await findResult(orm.em, wanted));
      if (result.status === 'retrying') throw failedAttempt(result);
      return result;
    },

    /** Records that an operator has cancelled the delivery, unless it ended before. */
    async giveUpDelivery(wanted: DeliveryOfWorkflow): Promise<'failed' | 'superseded'> {
      const found = await findHeldDelivery(orm.em, wanted);
      if (!found) return 'superseded';
      const { held } = found;
      await recordResults(orm.em, [{ held, kind: 'given_up', error: 'The delivery was cancelled by an operator' }]);
      return 'failed';
    },
  };
}

export type WebhookDeliveryActivities = ReturnType<typeof createWebhookDeliveryActivities>;

function toAttemptResult(result: StoredResult | null): AttemptResult {
  const error = result?.error ?? null;
  switch (result?.status) {
    case 'retrying':
      return { status: 'retrying', waitMs: Math.round(Math.max(0, result.waitMs ?? 0)), error };
    case 'failed':
      return { status: 'failed', error };
    case 'delivered':
      return { status: 'delivered' };
    default:
      return { status: 'superseded' };
  }
}

function failedAttempt({ waitMs, error }: { waitMs: number; error: string | null }): ApplicationFailure {
  return ApplicationFailure.create({
    message: error ?? 'The attempt failed',
    type: 'attempt_failed',
    nextRetryDelay: Math.max(1, Math.ceil(waitMs)),
  });
}

/** The delay grows with each try of the activity, because thousands of deliveries may wait for a slow endpoint. */
function busy(): ApplicationFailure {
  const { attempt: tries } = Context.current().info;
  const waitMs = Math.min(longestBusyWaitMs, 1000 * 2 ** Math.min(tries, 10)) * (0.5 + Math.random() / 2);
  return ApplicationFailure.create({
    message: 'The endpoint has as many requests in flight as it may',
    type: 'endpoint_busy',
    nextRetryDelay: Math.round(waitMs),
  });
}
