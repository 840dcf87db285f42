import type { EntityManager } from '@mikro-orm/postgresql';
import type { AccountId, EventId, WebhookDeliveryId, WebhookEndpointId } from '../../domain/ids.ts';
import type { AttemptOutcome, DeliveredEvent, DeliveryStatus, Verdict } from '../../domain/webhook-delivery.ts';
import { WebhookEndpoint } from '../entities/webhook-endpoint.ts';
import { query } from '../query.ts';
import { requestStart } from './outbox.ts';
import { readRow } from './read-row.ts';
import { countAttempts } from './webhook-health.ts';

/** How long a relay holds a delivery without renewing. Others take it then. */
const leaseSeconds = 10;

/** That a relay looks at in one claim; each claim looks at others. */
const endpointsAtOnce = 256;

/** That a claim looks at of each endpoint, at least; with few endpoints it looks at more. */
const fewest = 4;

/** Of attempts that are kept with a delivery. */
const keptAttempts = 20;

/** A delivery in the hands of a relay or a workflow. */
export interface HeldDelivery {
  deliveryId: WebhookDeliveryId;
  createdAt: Date;
  accountId: AccountId;
  endpointId: WebhookEndpointId;
  holder: string;
  status: DeliveryStatus;
  attemptNumber: number;
  round: number;
  roundFrom: number;
  nextRetryAt: Date | null;
  event: DeliveredEvent;
  /** As it is now; null: it is deleted, disabled, or its user is disabled. */
  endpoint: WebhookEndpoint | null;
}

type Row = Record<string, unknown>;

/** A row's endpoint as JSON, where it may receive. */
const endpointOf = `(select to_jsonb(w) from webhook_endpoints w where w.endpoint_id = d.endpoint_id and w.is_active
   and (w.user_id is null or exists (select 1 from users u where u.user_id = w.user_id and u.status = 'enabled'))) as endpoint`;

/**
 * Takes deliveries that are due, in turn from each endpoint, so that none waits behind the many of another. Each is held by
 * one relay at a time; those of a relay that dies are due again after ten seconds.
 * @param wanted.rooms how many more of an endpoint, or of an account, may be taken where it is not as many as usual
 */
export async function claimDeliveries(
  em: EntityManager,
  holder: string,
  wanted: {
    limit: number;
    perEndpoint: number;
    perAccount: number;
    rooms: { endpoints: ReadonlyMap<string, number>; accounts: ReadonlyMap<string, number> };
  },
): Promise<HeldDelivery[]> {
  const rooms = JSON.stringify([...wanted.rooms.endpoints].map(([endpoint_id, room]) => ({ endpoint_id, room })));
  const accountRooms = JSON.stringify([...wanted.rooms.accounts].map(([account_id, room]) => ({ account_id, room })));
  const rows = await query<Row>(
    em.fork(),
    `with recursive waiting(endpoint_id) as (
       (select endpoint_id from webhook_deliveries where relay_at is not null order by endpoint_id limit 1)
       union all
       select (select d.endpoint_id from webhook_deliveries d
                where d.relay_at is not null and d.endpoint_id > w.endpoint_id order by d.endpoint_id limit 1)
         from waiting w where w.endpoint_id is not null
     ), chosen as materialized (
       select endpoint_id, greatest(${fewest}, ceil(2.0 * ? / count(*) over ()))::int as share
         from (select * from waiting where endpoint_id is not null order by random() limit ${endpointsAtOnce}) w
     ), due as materialized (
       select delivery_id, created_at from (
         select d.delivery_id, d.created_at, coalesce(full_account.room, ?) as room,
                row_number() over (partition by d.account_id order by d.turn) as nth
           from chosen c
           left join jsonb_to_recordset(?::jsonb) as busy(endpoint_id text, room int) on busy.endpoint_id = c.endpoint_id
          cross join lateral (
            select first.*, row_number() over () as turn from (
              select delivery_id, created_at, account_id from webhook_deliveries
               where endpoint_id = c.endpoint_id and relay_at <= now() + interval '1 millisecond'
               order by relay_at limit greatest(0, least(coalesce(busy.room, ?), c.share)) for update skip locked) first) d
           left join jsonb_to_recordset(?::jsonb) as full_account(account_id text, room int)
             on full_account.account_id = d.account_id) picked
        where nth <= room order by nth limit ?
     )
     update webhook_deliveries d
        set holder = ?, relay_at = clock_timestamp() + interval '${leaseSeconds} seconds', status = 'delivering'
       from due where d.delivery_id = due.delivery_id and d.created_at = due.created_at
     returning d.*, ${endpointOf}`,
    [wanted.limit, wanted.perAccount, rooms, wanted.perEndpoint, accountRooms, wanted.limit, holder],
  );
  return rows.map((row) => readHeld(em, row));
}

/** Keeps what a relay still works on. It skips rows whose outcome is being written: that write may wait for others. */
export async function renewDeliveries(em: EntityManager, holder: string, held: readonly HeldDelivery[]): Promise<void> {
  if (held.length === 0) return;
  await query(
    em.fork(),
    `with mine as materialized (
       select d.delivery_id, d.created_at from webhook_deliveries d
         join jsonb_to_recordset(?::jsonb) as r(delivery_id text, created_at timestamptz) using (delivery_id, created_at)
        where d.holder = ? and d.relay_at is not null for update of d skip locked
     )
     update webhook_deliveries d set relay_at = clock_timestamp() + interval '${leaseSeconds} seconds'
       from mine where d.delivery_id = mine.delivery_id and d.created_at = mine.created_at`,
    [JSON.stringify(held.map(keysOf)), holder],
  );
}

/** The delivery that a workflow holds. Null: it is gone, or another holds it. */
export async function findHeldDelivery(
  em: EntityManager,
  key: { deliveryId: WebhookDeliveryId; createdAt: string; holder: string },
): Promise<HeldDelivery | null> {
  const [row] = await query<Row>(
    em.fork(),
    `select d.*, ${endpointOf} from webhook_deliveries d where d.delivery_id = ? and d.created_at = ? and d.holder = ?`,
    [key.deliveryId, key.createdAt, key.holder],
  );
  return row ? readHeld(em, row) : null;
}

/** Shows that a workflow's attempt is under way. */
export async function beginAttempt(em: EntityManager, held: HeldDelivery): Promise<void> {
  await query(
    em.fork(),
    "update webhook_deliveries set status = 'delivering' where delivery_id = ? and created_at = ? and holder = ?",
    [held.deliveryId, held.createdAt, held.holder],
  );
}

/** What became of a delivery that was held. */
export type Result =
  | { held: HeldDelivery; kind: 'attempted'; outcome: AttemptOutcome; verdict: Verdict }
  /** It ends without an attempt. */
  | { held: HeldDelivery; kind: 'given_up'; error: string }
  /** A workflow makes even the first attempt. */
  | { held: HeldDelivery; kind: 'handed_over' };

/**
 * Writes results, where their holder still is the holder, together with the counts of the endpoints, and has a workflow
 * started for each delivery that a relay could not finish. One transaction.
 */
export async function recordResults(em: EntityManager, results: readonly Result[]): Promise<void> {
  if (results.length === 0) return;
  await em.fork().transactional(async (tx) => {
    const changes = results.map((result) => changeOf(result));
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
    await countAttempts(tx, done);
    for (const result of done) startWorkflow(tx, result);
  });
}

/** The workflow that goes on with a delivery. */
export function workflowOf({ deliveryId, round }: Pick<HeldDelivery, 'deliveryId' | 'round'>): string {
  return round === 1 ? deliveryId : `${deliveryId}/${round}`;
}

const keysOf = ({ deliveryId, createdAt }: HeldDelivery) => ({ delivery_id: deliveryId, created_at: createdAt });

function changeOf(result: Result): object {
  const { held } = result;
  const keys = { ...keysOf(held), holder: held.holder };
  const workflow = workflowOf(held);
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

function nextAttemptAt({ outcome, verdict }: Result & { kind: 'attempted' }): Date | null {
  if (verdict.status !== 'retrying') return null;
  return new Date(Date.parse(outcome.startedAt) + outcome.durationMs + verdict.waitMs);
}

/** Nothing is started for results of the workflow itself. */
function startWorkflow(tx: EntityManager, result: Result): void {
  const { held } = result;
  const workflow = workflowOf(held);
  if (held.holder === workflow || result.kind === 'given_up') return;
  if (result.kind === 'attempted' && result.verdict.status !== 'retrying') return;
  requestStart(tx, 'webhookDelivery', workflow, {
    deliveryId: held.deliveryId,
    accountId: held.accountId,
    createdAt: held.createdAt.toISOString(),
    holder: workflow,
    attemptsBefore: held.attemptNumber + (result.kind === 'attempted' ? 1 : 0),
    roundFrom: held.roundFrom,
    nextAttemptAtMs: result.kind === 'attempted' ? nextAttemptAt(result)!.getTime() : Date.now(),
  });
}

function readHeld(em: EntityManager, row: Row): HeldDelivery {
  return {
    deliveryId: row.delivery_id as WebhookDeliveryId,
    createdAt: new Date(row.created_at as string),
    accountId: row.account_id as AccountId,
    endpointId: row.endpoint_id as WebhookEndpointId,
    holder: String(row.holder),
    status: row.status as DeliveryStatus,
    attemptNumber: Number(row.attempt_number),
    round: Number(row.round),
    roundFrom: Number(row.round_from),
    nextRetryAt: row.next_retry_at === null ? null : new Date(row.next_retry_at as string),
    event: {
      eventId: row.event_id as EventId,
      eventType: String(row.event_type),
      eventAt: new Date(row.event_at as string).toISOString(),
      data: row.data as Record<string, unknown>,
    },
    endpoint: row.endpoint ? readRow(em, WebhookEndpoint, row.endpoint as Row) : null,
  };
}
