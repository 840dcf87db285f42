import type { EntityManager } from '@mikro-orm/postgresql';
import type { WebhookDeliveryId } from '../../domain/ids.ts';
import { query } from '../core/query.ts';
import { type EntityRow, readRow } from '../core/read-row.ts';
import { type DeliveryRow, type HeldDelivery, toKeyColumns } from './held-delivery.ts';
import { WebhookEndpoint } from './webhook-endpoint.entity.ts';

/** How long a relay holds a delivery without renewal. After that, another relay takes it. */
export const leaseSeconds = 10;

type EndpointRow = EntityRow<WebhookEndpoint>;

/** The columns of a held delivery. */
type HeldRow = Pick<
  DeliveryRow,
  | 'delivery_id'
  | 'created_at'
  | 'account_id'
  | 'endpoint_id'
  | 'event_id'
  | 'event_type'
  | 'event_at'
  | 'data'
  | 'status'
  | 'attempt_number'
  | 'round'
  | 'round_from'
>;

const heldColumns =
  `d.delivery_id, d.created_at, d.account_id, d.endpoint_id, d.event_id, d.event_type, d.event_at, d.data,
  d.status, d.attempt_number, d.round, d.round_from` as const;

/** The endpoint of `d` as JSON, if it may receive events. */
const selectEndpoint = `(select to_jsonb(w) from webhook_endpoints w where w.endpoint_id = d.endpoint_id and w.is_active
   and (w.user_id is null or exists (select 1 from users u where u.user_id = w.user_id and u.status = 'enabled'))) as endpoint`;

/**
 * What a relay claims: due deliveries in turn from each endpoint, so that the many deliveries of one endpoint do not
 * delay others. Only one relay at a time holds a delivery. The deliveries of a relay that dies are due again after ten
 * seconds.
 */
export interface WantedDeliveries {
  holder: string;
  limit: number;
  perEndpoint: number;
  perAccount: number;
  /** The number of further deliveries of an endpoint or an account that may be claimed, if it differs from the usual one. */
  freeSlots: { endpoints: ReadonlyMap<string, number>; accounts: ReadonlyMap<string, number> };
}

/** The claimed deliveries of one endpoint. */
export interface ClaimedDeliveries {
  endpoint: EndpointRow | null;
  deliveries: HeldRow[];
}

/** The arguments of the function `claim_webhook_deliveries`. Null: it claims none. */
export function claimValues(wanted: WantedDeliveries | null): (string | number)[] {
  if (!wanted) return ['', 0, 0, 0, '{}', '{}'];
  const { holder, limit, perEndpoint, perAccount, freeSlots } = wanted;
  const [endpoints, accounts] = [freeSlots.endpoints, freeSlots.accounts].map((slots) =>
    JSON.stringify(Object.fromEntries(slots)),
  ) as [string, string];
  return [holder, limit, perEndpoint, perAccount, endpoints, accounts];
}

export function readClaimed(em: EntityManager, holder: string, claimed: readonly ClaimedDeliveries[]): HeldDelivery[] {
  return claimed.flatMap(({ endpoint, deliveries }) => {
    const read = endpoint && readRow(em, WebhookEndpoint, endpoint);
    return deliveries.map((row) => readHeld(row, holder, read));
  });
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
  const [row] = await query<HeldRow & { endpoint: EndpointRow | null; wait_ms: number | null }>(
    em.fork(),
    `select ${heldColumns}, ${selectEndpoint},
            case d.status when 'retrying' then extract(epoch from next_retry_at - clock_timestamp())::float8 * 1000 end
              as wait_ms
       from webhook_deliveries d where d.delivery_id = ? and d.created_at = ? and d.holder = ?`,
    [key.deliveryId, key.createdAt, key.holder],
  );
  if (!row) return null;
  const endpoint = row.endpoint && readRow(em, WebhookEndpoint, row.endpoint);
  return { held: readHeld(row, key.holder, endpoint), waitMs: Math.max(0, row.wait_ms ?? 0) };
}

/** Records that a workflow's attempt is in progress. */
export async function beginAttempt(em: EntityManager, held: HeldDelivery): Promise<void> {
  await query(
    em.fork(),
    "update webhook_deliveries set status = 'delivering' where delivery_id = ? and created_at = ? and holder = ?",
    [held.deliveryId, held.createdAt, held.holder],
  );
}

function readHeld(row: HeldRow, holder: string, endpoint: WebhookEndpoint | null): HeldDelivery {
  return {
    deliveryId: row.delivery_id,
    createdAt: new Date(row.created_at),
    accountId: row.account_id,
    endpointId: row.endpoint_id,
    holder,
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
    endpoint,
  };
}
