import type { EntityManager } from '@mikro-orm/postgresql';
import type { WebhookDeliveryId, WebhookEndpointId } from '../../domain/ids.ts';
import type { DeliveryStatus } from '../../domain/webhooks/delivery.ts';
import { failingDaysUntilDisabled, failuresUntilUnhealthy } from '../../domain/webhooks/schedule.ts';
import { requestStart } from '../core/outbox.ts';
import { query } from '../core/query.ts';
import { type DeliveryResult, type HeldDelivery, toKeyColumns } from './held-delivery.ts';
import { type ChangedEndpoint, notifyOwners } from './webhook-health.ts';
import {
  type ClaimedDeliveries,
  claimValues,
  leaseSeconds,
  readClaimed,
  type WantedDeliveries,
} from './webhook-queue.ts';

/** The number of attempts that are kept with a delivery. */
const keptAttempts = 20;

/**
 * Writes results if their holder still holds the delivery, together with the counts and the health of the endpoints, and
 * requests the start of a workflow for each delivery that a relay could not finish. All in one transaction. Afterwards,
 * an endpoint that works again gets what still waits for a workflow from relays, because few workflows start at once.
 */
export async function recordResults(em: EntityManager, results: readonly DeliveryResult[]): Promise<void> {
  if (results.length > 0) await recordAndClaim(em, results, null);
}

/** Writes results like `recordResults`, and claims deliveries, in the same transaction and usually one statement. */
export async function recordAndClaim(
  em: EntityManager,
  results: readonly DeliveryResult[],
  wanted: WantedDeliveries | null,
): Promise<HeldDelivery[]> {
  const { changed, claimed } = results.every(needsOnlyItsRow)
    ? await write(em.fork(), results, wanted)
    : await em.fork().transactional((tx) => write(tx, results, wanted));
  const recovered = changed.filter(({ recovers }) => recovers).map((row) => row.endpoint_id);
  if (recovered.length > 0) await returnToRelays(em, recovered);
  return wanted ? readClaimed(em, wanted.holder, claimed) : [];
}

/** Then the statement of `write` is the only one, and needs no transaction around it. */
const needsOnlyItsRow = (result: DeliveryResult) =>
  result.kind === 'attempted' && result.verdict.status === 'delivered';

async function write(
  tx: EntityManager,
  results: readonly DeliveryResult[],
  wanted: WantedDeliveries | null,
): Promise<{ changed: ChangedEndpoint[]; claimed: ClaimedDeliveries[] }> {
  const [row] = await query<{
    recorded: { unfinished: WebhookDeliveryId[]; changed: ChangedEndpoint[] } | null;
    claimed: ClaimedDeliveries[] | null;
  }>(
    tx,
    `select record_webhook_results(?::jsonb, ${keptAttempts}, ${failuresUntilUnhealthy},
              interval '${failingDaysUntilDisabled} days') as recorded,
            claim_webhook_deliveries(?, interval '${leaseSeconds} seconds', ?, ?, ?, ?::jsonb, ?::jsonb) as claimed`,
    [JSON.stringify(results.map(toRowChange)), ...claimValues(wanted)],
  );
  const [recorded, claimed] = [row!.recorded!, row!.claimed!];
  for (const endpoint of recorded.changed) if (endpoint.disables) await notifyOwners(tx, endpoint);
  const unfinished = new Set(recorded.unfinished);
  for (const result of results) if (unfinished.has(result.held.deliveryId)) startWorkflow(tx, result);
  return { changed: recorded.changed, claimed };
}

/** The number of waiting starts that one statement reads. */
const startsPerBatch = 1000;

/**
 * Gives deliveries that no one has attempted back to relays, instead of starting their workflows. Not those whose start
 * was attempted: a workflow that found its delivery taken would end, and its id cannot be started again after a
 * failure.
 */
async function returnToRelays(em: EntityManager, endpoints: readonly WebhookEndpointId[]): Promise<void> {
  for (let after: string | null = '0'; after !== null; ) {
    const [row]: { last: string | null }[] = await query<{ last: string | null }>(
      em.fork(),
      `with waiting as materialized (
         select id, workflow_id, input->>'deliveryId' as delivery_id, (input->>'createdAt')::timestamptz as created_at
           from outbox where workflow_type = 'webhookDelivery' and attempts = 0 and id > ?::bigint
          order by id limit ? for update skip locked
       ), given as (
         update webhook_deliveries d set holder = null, relay_at = clock_timestamp()
           from waiting w
          where d.delivery_id = w.delivery_id and d.created_at = w.created_at and d.holder = w.workflow_id
            and d.status = 'pending' and d.endpoint_id = any(?::text[])
         returning w.id
       ), removed as (delete from outbox o using given g where o.id = g.id)
       select max(id)::text as last from waiting`,
      [after, startsPerBatch, `{${endpoints.join(',')}}`],
    );
    after = row!.last;
  }
}

export interface StoredResult {
  status: DeliveryStatus;
  error: string | null;
  /** The time until the next attempt. Null: there is none. */
  waitMs: number | null;
}

/** The result of a workflow's last attempt. Null: the delivery is gone, or another holder has it. */
export async function findResult(
  em: EntityManager,
  { deliveryId, createdAt, holder }: { deliveryId: WebhookDeliveryId; createdAt: string; holder: string },
): Promise<StoredResult | null> {
  const [row] = await query<StoredResult>(
    em.fork(),
    `select status, error_message as error, extract(epoch from next_retry_at - clock_timestamp())::float8 * 1000 as "waitMs"
       from webhook_deliveries
      where delivery_id = ? and created_at = ? and (holder = ? or status in ('delivered', 'failed'))`,
    [deliveryId, createdAt, holder],
  );
  return row ?? null;
}

/** The workflow that continues a delivery. */
export function formatWorkflowId({ deliveryId, round }: Pick<HeldDelivery, 'deliveryId' | 'round'>): string {
  return round === 1 ? deliveryId : `${deliveryId}/${round}`;
}

function toRowChange(result: DeliveryResult, nth: number): object {
  const { held } = result;
  // A repeated delivery counts again, so that there are never more ended deliveries than deliveries.
  const keys = { ...toKeyColumns(held), nth, holder: held.holder, is_first: held.attemptNumber === held.roundFrom };
  const workflow = formatWorkflowId(held);
  if (result.kind === 'handed_over') return { ...keys, status: 'pending', attempted: false, next_holder: workflow };
  const endedAt = new Date();
  if (result.kind === 'given_up') {
    const error = { error_message: result.error, failed_at: endedAt };
    return { ...keys, status: 'failed', attempted: false, next_holder: null, ...error };
  }
  const { outcome, verdict } = result;
  return {
    ...keys,
    status: verdict.status,
    attempted: true,
    attempt: outcome,
    started_at: outcome.startedAt,
    http_status_code: outcome.httpStatus,
    error_message: outcome.error,
    max_attempts: held.endpoint ? held.roundFrom + 1 + held.endpoint.maxRetries : null,
    next_holder: verdict.status === 'retrying' ? workflow : null,
    next_retry_at: nextAttemptAt(result),
    delivered_at: verdict.status === 'delivered' ? endedAt : null,
    failed_at: verdict.status === 'failed' ? endedAt : null,
  };
}

function nextAttemptAt({ outcome, verdict }: DeliveryResult & { kind: 'attempted' }): Date | null {
  if (verdict.status !== 'retrying') return null;
  return new Date(Date.parse(outcome.startedAt) + outcome.durationMs + verdict.waitMs);
}

/** For results of the workflow itself, no workflow is started. */
function startWorkflow(tx: EntityManager, result: DeliveryResult): void {
  const { held } = result;
  const workflow = formatWorkflowId(held);
  if (held.holder === workflow) return;
  requestStart(tx, 'webhookDelivery', workflow, {
    deliveryId: held.deliveryId,
    accountId: held.accountId,
    createdAt: held.createdAt.toISOString(),
    holder: workflow,
    nextAttemptAtMs: result.kind === 'attempted' ? nextAttemptAt(result)!.getTime() : Date.now(),
  });
}
