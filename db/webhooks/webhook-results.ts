import type { EntityManager } from '@mikro-orm/postgresql';
import type { WebhookDeliveryId, WebhookEndpointId } from '../../domain/ids.ts';
import type { DeliveryStatus } from '../../domain/webhooks/delivery.ts';
import { requestStart } from '../core/outbox.ts';
import { query } from '../core/query.ts';
import { type DeliveryResult, type HeldDelivery, toKeyColumns } from './held-delivery.ts';
import { countAttempts } from './webhook-health.ts';

/** The number of attempts that are kept with a delivery. */
const keptAttempts = 20;

/**
 * Writes results if their holder still holds the delivery, together with the counts of the endpoints, and requests the
 * start of a workflow for each delivery that a relay could not finish. All in one transaction. Afterwards, an endpoint
 * that works again gets what still waits for a workflow from relays, because few workflows start at once.
 */
export async function recordResults(em: EntityManager, results: readonly DeliveryResult[]): Promise<void> {
  if (results.length === 0) return;
  const recovered = await em.fork().transactional(async (tx) => {
    const changes = results.map((result) => toRowChange(result));
    const written = await query<{ delivery_id: string }>(
      tx,
      `update webhook_deliveries d
          set status = r.status, relay_at = null, holder = r.next_holder, next_retry_at = r.next_retry_at,
              error_message = r.error_message, delivered_at = r.delivered_at, failed_at = r.failed_at,
              http_status_code = case when r.attempted then r.http_status_code else d.http_status_code end,
              attempt_number = d.attempt_number + r.attempted::int, max_attempts = coalesce(r.max_attempts, d.max_attempts),
              attempts = case when r.attempted
                then jsonb_path_query_array(d.attempts, '$[last - ${keptAttempts - 2} to last]') || r.attempt else d.attempts end
         from jsonb_to_recordset(?::jsonb) as r(delivery_id text, created_at timestamptz, holder text, next_holder text,
                status text, attempted boolean, attempt jsonb, http_status_code int, error_message text, max_attempts int,
                next_retry_at timestamptz, delivered_at timestamptz, failed_at timestamptz)
        where d.delivery_id = r.delivery_id and d.created_at = r.created_at and d.holder = r.holder
       returning d.delivery_id`,
      [JSON.stringify(changes)],
    );
    const ids = new Set(written.map((row) => row.delivery_id));
    const done = results.filter(({ held }) => ids.has(held.deliveryId));
    const endpoints = await countAttempts(tx, done);
    for (const result of done) startWorkflow(tx, result);
    return endpoints;
  });
  if (recovered.length > 0) await returnToRelays(em, recovered);
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

function toRowChange(result: DeliveryResult): object {
  const { held } = result;
  const keys = { ...toKeyColumns(held), holder: held.holder };
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
  if (held.holder === workflow || result.kind === 'given_up') return;
  if (result.kind === 'attempted' && result.verdict.status !== 'retrying') return;
  requestStart(tx, 'webhookDelivery', workflow, {
    deliveryId: held.deliveryId,
    accountId: held.accountId,
    createdAt: held.createdAt.toISOString(),
    holder: workflow,
    nextAttemptAtMs: result.kind === 'attempted' ? nextAttemptAt(result)!.getTime() : Date.now(),
  });
}
