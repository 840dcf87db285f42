import type { EntityManager } from '@mikro-orm/postgresql';
import {
  type SignalName,
  type WorkflowInput,
  type Workflows,
  type WorkflowType,
  workflowKinds,
} from '../../domain/workflow-registry.ts';
import { OutboxEntry } from './outbox-entry.entity.ts';
import { type ListedTable, type Listing, type ListPage, readPage } from './page.ts';
import { query } from './query.ts';
import { type EntityRow, readRow } from './read-row.ts';

/**
 * An entry is dead after this many attempts that Temporal refused, which takes about six minutes. An outage of Temporal
 * does not count.
 */
const maxRefusals = 10;

/** The maximum length of a stored error, in characters. */
const errorLength = 1000;

/** Seconds until the next attempt: 1, 2, 4 … 60. */
const backOff = "least(60, power(2, attempts)) * interval '1 second'";

/**
 * Requests that the relay starts a workflow after the transaction of `em` is committed. Of several starts of the same
 * workflow, one has an effect.
 */
export function requestStart<Type extends WorkflowType>(
  em: EntityManager,
  type: Type,
  objectId: string,
  input: WorkflowInput<Type>,
): void {
  em.create(OutboxEntry, toStartEntry(type, objectId, input), { persist: true });
}

/** The columns of the entry of a start. */
export function toStartEntry<Type extends WorkflowType>(
  type: Type,
  objectId: string,
  input: WorkflowInput<Type>,
): Pick<OutboxEntry, 'workflowType' | 'workflowId' | 'input'> {
  return { workflowType: type, workflowId: workflowKinds[type].workflowId(objectId), input: { ...input } };
}

/**
 * Requests that the relay signals a workflow after the transaction of `em` is committed: at least once, in any order,
 * and even if the workflow starts later. If the workflow has closed, the signal has no effect.
 */
export function requestSignal<Type extends WorkflowType, Signal extends SignalName<Type>>(
  em: EntityManager,
  type: Type,
  objectId: string,
  signal: Signal,
  argument: Workflows[Type]['signals'][Signal] & object,
): void {
  const workflowId = workflowKinds[type].workflowId(objectId);
  em.create(OutboxEntry, { workflowType: type, workflowId, signal, input: { ...argument } }, { persist: true });
}

/** Retries of webhooks are taken apart from all other entries, because one failing endpoint makes thousands of them. */
export const outboxLanes = ['webhooks', 'others'] as const;
export type OutboxLane = (typeof outboxLanes)[number];

const isDue = "not_before < now() + interval '1 millisecond' and dead_at is null";
const accountOfEntry = "coalesce(input->>'accountId', input->'plan'->>'accountId', workflow_id)";

/** The lanes that have a due entry. This is much cheaper than to take entries. */
export async function findDueLanes(em: EntityManager): Promise<OutboxLane[]> {
  const [row] = await query<Record<OutboxLane, boolean>>(
    em.fork(),
    `select exists (select from outbox where ${isDue} and workflow_type = 'webhookDelivery') as webhooks,
            exists (select from outbox where ${isDue} and workflow_type <> 'webhookDelivery') as others`,
  );
  return outboxLanes.filter((lane) => row![lane]);
}

/**
 * Takes up to `limit` due entries of a lane, in turn from each account, and postpones their next attempt. So several
 * relays never hold the same entry at once, and the entries of a relay that dies become due again. The comparison
 * allows for `not_before` being rounded up to the next millisecond, so that a new entry is due at once.
 */
export async function takeDueEntries(em: EntityManager, lane: OutboxLane, limit: number): Promise<OutboxEntry[]> {
  const rows = await query<EntityRow<OutboxEntry>>(
    em.fork(),
    // Materialized, because Postgres may run a subquery with locks once for each row, and each run would lock other
    // rows.
    `with waiting as materialized (
       select id, row_number() over (partition by ${accountOfEntry} order by id) as turn from outbox
        where ${isDue} and (workflow_type = 'webhookDelivery') = ?
     ), due as materialized (
       select id from outbox join waiting using (id) where ${isDue}
        order by turn, id limit ? for update of outbox skip locked
     )
     update outbox o set attempts = attempts + 1, not_before = now() + ${backOff}
       from due where o.id = due.id
     returning o.*`,
    [lane === 'webhooks', limit],
  );
  return rows.map((row) => toEntry(em, row));
}

/** Removes finished entries. */
export async function removeEntries(em: EntityManager, ids: readonly string[]): Promise<void> {
  if (ids.length === 0) return;
  await query(em.fork(), 'delete from outbox where id = any(?::bigint[])', [`{${ids.join(',')}}`]);
}

/** Removes the start of a workflow that its caller has started without the relay. */
export async function removeStart(em: EntityManager, workflowId: string): Promise<void> {
  await query(em.fork(), 'delete from outbox where workflow_id = ? and signal is null', [workflowId]);
}

/**
 * Records the reason of a failed attempt.
 * @param attempt.isRefusal Temporal was reachable; after ten refusals the entry is dead
 * @returns whether the entry is dead now
 */
export async function recordFailedAttempt(
  em: EntityManager,
  attempt: { id: string; error: string; isRefusal: boolean },
): Promise<boolean> {
  const [row] = await query<{ dead: boolean }>(
    em.fork(),
    `update outbox set last_error = ?, refusals = refusals + ?,
            dead_at = case when refusals + ? >= ${maxRefusals} then now() end
      where id = ? returning dead_at is not null as dead`,
    [attempt.error.slice(0, errorLength), Number(attempt.isRefusal), Number(attempt.isRefusal), attempt.id],
  );
  return row?.dead ?? false;
}

const listed: ListedTable = { table: 'outbox', alias: 'o', key: ['id'] };

/** A page of the dead entries, which are not tried any more. */
export async function listDeadEntries(
  em: EntityManager,
  listing: Listing,
): Promise<ListPage & { entries: OutboxEntry[] }> {
  const isDead = { sql: 'o.dead_at is not null', values: [] };
  const { rows, ...page } = await readPage<EntityRow<OutboxEntry>>(em.fork(), listed, [isDead], listing);
  return { entries: rows.map((row) => toEntry(em, row)), ...page };
}

function toEntry(em: EntityManager, row: EntityRow<OutboxEntry>): OutboxEntry {
  return { ...readRow(em, OutboxEntry, row), id: String(row.id) };
}

/** Schedules dead entries again, all of them or one, in the transaction of `tx`. @returns their number */
export async function reviveEntries(tx: EntityManager, id: string | null): Promise<number> {
  const rows = await query(
    tx,
    `update outbox set dead_at = null, refusals = 0, attempts = 0, not_before = now()
      where dead_at is not null and (?::bigint is null or id = ?::bigint) returning 1`,
    [id, id],
  );
  return rows.length;
}

/** The numbers of waiting and of dead entries. */
export async function countEntries(em: EntityManager): Promise<{ waiting: number; dead: number }> {
  const [row] = await query<{ waiting: number; dead: number }>(
    em.fork(),
    `select (count(*) filter (where dead_at is null))::int as waiting,
            (count(*) filter (where dead_at is not null))::int as dead from outbox`,
  );
  return row!;
}
