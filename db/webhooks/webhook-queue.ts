import type { EntityManager } from '@mikro-orm/postgresql';
import type { WebhookDeliveryId } from '../../domain/ids.ts';
import { query } from '../core/query.ts';
import { type EntityRow, readRow } from '../core/read-row.ts';
import { type DeliveryRow, type HeldDelivery, toKeyColumns } from './held-delivery.ts';
import { WebhookEndpoint } from './webhook-endpoint.entity.ts';

/** How long a relay holds a delivery without renewal. After that, another relay takes it. */
const leaseSeconds = 10;

/** The number of endpoints that a relay considers in one claim. Each claim considers others. */
const endpointsPerClaim = 256;

/** The minimum number of deliveries that a claim considers for each endpoint. With few endpoints it considers more. */
const fewest = 4;

/** `endpoint`: null unless it may receive events. */
type HeldRow = DeliveryRow & { endpoint: EntityRow<WebhookEndpoint> | null };

/** A row's endpoint as JSON, if it may receive events. */
const selectEndpoint = `(select to_jsonb(w) from webhook_endpoints w where w.endpoint_id = d.endpoint_id and w.is_active
   and (w.user_id is null or exists (select 1 from users u where u.user_id = w.user_id and u.status = 'enabled'))) as endpoint`;

/**
 * Claims due deliveries in turn from each endpoint, so that the many deliveries of one endpoint do not delay others.
 * Only one relay at a time holds a delivery. The deliveries of a relay that dies are due again after ten seconds.
 * @param wanted.freeSlots the number of further deliveries of an endpoint or an account that may be claimed, if it
 * differs from the usual one
 */
export async function claimDeliveries(
  em: EntityManager,
  holder: string,
  wanted: {
    limit: number;
    perEndpoint: number;
    perAccount: number;
    freeSlots: { endpoints: ReadonlyMap<string, number>; accounts: ReadonlyMap<string, number> };
  },
): Promise<HeldDelivery[]> {
  const endpointSlots = JSON.stringify(
    [...wanted.freeSlots.endpoints].map(([endpoint_id, slots]) => ({ endpoint_id, slots })),
  );
  const accountSlots = JSON.stringify(
    [...wanted.freeSlots.accounts].map(([account_id, slots]) => ({ account_id, slots })),
  );
  const rows = await query<HeldRow>(
    em.fork(),
    `with recursive waiting(endpoint_id) as (
       (select endpoint_id from webhook_deliveries where relay_at is not null order by endpoint_id limit 1)
       union all
       select (select d.endpoint_id from webhook_deliveries d
                where d.relay_at is not null and d.endpoint_id > w.endpoint_id order by d.endpoint_id limit 1)
         from waiting w where w.endpoint_id is not null
     ), chosen as materialized (
       select endpoint_id, greatest(${fewest}, ceil(2.0 * ? / count(*) over ()))::int as share
         from (select * from waiting where endpoint_id is not null order by random() limit ${endpointsPerClaim}) w
     ), due as materialized (
       select delivery_id, created_at from (
         select d.delivery_id, d.created_at, coalesce(full_account.slots, ?) as slots,
                row_number() over (partition by d.account_id order by d.turn) as nth
           from chosen c
           left join jsonb_to_recordset(?::jsonb) as busy(endpoint_id text, slots int) on busy.endpoint_id = c.endpoint_id
          cross join lateral (
            select first.*, row_number() over () as turn from (
              select delivery_id, created_at, account_id from webhook_deliveries
               where endpoint_id = c.endpoint_id and relay_at <= now() + interval '1 millisecond'
               order by relay_at limit greatest(0, least(coalesce(busy.slots, ?), c.share)) for update skip locked) first) d
           left join jsonb_to_recordset(?::jsonb) as full_account(account_id text, slots int)
             on full_account.account_id = d.account_id) picked
        where nth <= slots order by nth limit ?
     )
     update webhook_deliveries d
        set holder = ?, relay_at = clock_timestamp() + interval '${leaseSeconds} seconds', status = 'delivering'
       from due where d.delivery_id = due.delivery_id and d.created_at = due.created_at
     returning d.*, ${selectEndpoint}`,
    [wanted.limit, wanted.perAccount, endpointSlots, wanted.perEndpoint, accountSlots, wanted.limit, holder],
  );
  return rows.map((row) => readHeld(em, row));
}

/**
 * Renews the leases of deliveries that a relay still works on. Skips rows whose outcome is being written, because that
 * write may wait for others.
 */
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
    [JSON.stringify(held.map(toKeyColumns)), holder],
  );
}

/**
 * The delivery that a workflow holds, and the time until its next attempt, by the clock that determined it. Null: the
 * delivery is gone, or another holder has it.
 */
export async function findHeldDelivery(
  em: EntityManager,
  key: { deliveryId: WebhookDeliveryId; createdAt: string; holder: string },
): Promise<{ held: HeldDelivery; waitMs: number } | null> {
  const [row] = await query<HeldRow & { wait_ms: number | null }>(
    em.fork(),
    `select d.*, ${selectEndpoint},
            case d.status when 'retrying' then extract(epoch from next_retry_at - clock_timestamp())::float8 * 1000 end
              as wait_ms
       from webhook_deliveries d where d.delivery_id = ? and d.created_at = ? and d.holder = ?`,
    [key.deliveryId, key.createdAt, key.holder],
  );
  return row ? { held: readHeld(em, row), waitMs: Math.max(0, row.wait_ms ?? 0) } : null;
}

/** Records that a workflow's attempt is in progress. */
export async function beginAttempt(em: EntityManager, held: HeldDelivery): Promise<void> {
  await query(
    em.fork(),
    "update webhook_deliveries set status = 'delivering' where delivery_id = ? and created_at = ? and holder = ?",
    [held.deliveryId, held.createdAt, held.holder],
  );
}

function readHeld(em: EntityManager, row: HeldRow): HeldDelivery {
  return {
    deliveryId: row.delivery_id,
    createdAt: new Date(row.created_at),
    accountId: row.account_id,
    endpointId: row.endpoint_id,
    holder: row.holder!,
    status: row.status,
    attemptNumber: row.attempt_number,
    round: row.round,
    roundFrom: row.round_from,
    event: {
      eventId: row.event_id,
      eventType: row.event_type,
      eventAt: new Date(row.event_at).toISOString(),
      data: row.data,
    },
    endpoint: row.endpoint && readRow(em, WebhookEndpoint, row.endpoint),
  };
}
