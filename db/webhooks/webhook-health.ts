import type { EntityManager } from '@mikro-orm/postgresql';
import type { AccountId, UserId, WebhookEndpointId } from '../../domain/ids.ts';
import { isGone } from '../../domain/webhooks/delivery.ts';
import { failingDaysUntilDisabled, failuresUntilUnhealthy } from '../../domain/webhooks/schedule.ts';
import { addNotification } from '../accounts/notifications.ts';
import { User } from '../accounts/user.entity.ts';
import { query } from '../core/query.ts';
import type { DeliveryResult } from './held-delivery.ts';

interface Counts {
  endpoint_id: string;
  begun: number;
  delivered: number;
  failed: number;
  succeeded: boolean;
  /** The failed attempts in this batch since the last success. */
  failures: number;
  last_at: string | null;
  last_success_at: string | null;
  first_failure_at: string | null;
  last_failure_at: string | null;
  gone: boolean;
}

/**
 * Adds results to the counts of their endpoints. Disables endpoints that are gone, or have only failed for five days,
 * and notifies their owners. Locks endpoints in the order of their ids, so that concurrent calls do not deadlock.
 * @returns the endpoints that work again after so many failures that only workflows made attempts
 */
export async function countAttempts(
  tx: EntityManager,
  results: readonly DeliveryResult[],
): Promise<WebhookEndpointId[]> {
  const byEndpoint = new Map<string, Counts>();
  for (const result of results) {
    if (result.kind === 'handed_over') continue;
    const { endpointId } = result.held;
    const counts = byEndpoint.get(endpointId) ?? noCounts(endpointId);
    byEndpoint.set(endpointId, counts);
    add(counts, result);
  }
  if (byEndpoint.size === 0) return [];
  const counted = await query<CountedRow>(
    tx,
    `with r as (
       select * from jsonb_to_recordset(?::jsonb) as r(endpoint_id text, begun int, delivered int, failed int,
         succeeded boolean, failures int, last_at timestamptz, last_success_at timestamptz,
         first_failure_at timestamptz, last_failure_at timestamptz, gone boolean)
     ), locked as materialized (
       select endpoint_id, is_active, failing_since, consecutive_failures from webhook_endpoints
        where endpoint_id in (select endpoint_id from r) order by endpoint_id for update
     ), judged as (
       select r.*, r.succeeded and l.consecutive_failures >= ${failuresUntilUnhealthy} as recovers,
              l.is_active and (r.gone or (r.failures > 0 and not r.succeeded
           and coalesce(l.failing_since < now() - interval '${failingDaysUntilDisabled} days', false))) as disables
         from r join locked l using (endpoint_id)
     )
     update webhook_endpoints w
        set total_deliveries = w.total_deliveries + j.begun,
            successful_deliveries = w.successful_deliveries + j.delivered,
            failed_deliveries = w.failed_deliveries + j.failed,
            last_delivery_at = greatest(w.last_delivery_at, j.last_at),
            last_success_at = greatest(w.last_success_at, j.last_success_at),
            last_failure_at = greatest(w.last_failure_at, j.last_failure_at),
            consecutive_failures = case when j.succeeded then 0 else w.consecutive_failures end + j.failures,
            failing_since = case when j.failures = 0 and j.succeeded then null
              when j.succeeded then j.first_failure_at else coalesce(w.failing_since, j.first_failure_at) end,
            is_active = w.is_active and not j.disables,
            disabled_reason = case when not j.disables then w.disabled_reason when j.gone then 'gone' else 'failing' end
       from judged j where w.endpoint_id = j.endpoint_id
     returning w.endpoint_id, w.account_id, w.user_id, w.url, w.disabled_reason, j.disables, j.recovers`,
    [JSON.stringify([...byEndpoint.values()])],
  );
  for (const row of counted) if (row.disables) await notifyOwners(tx, row);
  return counted.filter((row) => row.recovers).map((row) => row.endpoint_id);
}

interface CountedRow {
  endpoint_id: WebhookEndpointId;
  account_id: AccountId;
  user_id: UserId | null;
  url: string;
  disabled_reason: string | null;
  disables: boolean | null;
  recovers: boolean | null;
}

const noCounts = (endpointId: WebhookEndpointId): Counts => ({
  endpoint_id: endpointId,
  ...{ begun: 0, delivered: 0, failed: 0, succeeded: false, failures: 0, gone: false },
  ...{ last_at: null, last_success_at: null, first_failure_at: null, last_failure_at: null },
});

function add(counts: Counts, result: Exclude<DeliveryResult, { kind: 'handed_over' }>): void {
  const { held } = result;
  // A repeated delivery counts again, so that there are never more ended deliveries than deliveries.
  counts.begun += held.attemptNumber === held.roundFrom ? 1 : 0;
  if (result.kind === 'given_up') {
    counts.failed += 1;
    return;
  }
  const { outcome, verdict } = result;
  counts.delivered += verdict.status === 'delivered' ? 1 : 0;
  counts.failed += verdict.status === 'failed' ? 1 : 0;
  counts.last_at = outcome.startedAt;
  if (outcome.error === null) {
    counts.succeeded = true;
    counts.failures = 0;
    counts.first_failure_at = null;
    counts.last_success_at = outcome.startedAt;
    return;
  }
  counts.failures += 1;
  counts.first_failure_at ??= outcome.startedAt;
  counts.last_failure_at = outcome.startedAt;
  counts.gone ||= isGone(outcome);
}

/** The owner, or the root users if the webhook belongs to the account. */
async function notifyOwners(tx: EntityManager, row: CountedRow): Promise<void> {
  const whose = row.user_id ? { userId: row.user_id } : { accountId: row.account_id, isRootUser: true };
  const owners = await tx.find(User, { ...whose, status: 'enabled' }, { fields: ['userId'] });
  const why =
    row.disabled_reason === 'gone' ? 'it answered 410' : `it has only failed for ${failingDaysUntilDisabled} days`;
  for (const { userId } of owners) {
    addNotification(tx, {
      accountId: row.account_id,
      userId,
      title: 'A webhook was disabled',
      message: `${new URL(row.url).origin} no longer gets events: ${why}. Set is_active to send to it again.`,
      type: 'webhook_disabled',
      category: 'webhook',
      relatedEntityType: 'webhook',
      relatedEntityId: row.endpoint_id,
    });
  }
}
