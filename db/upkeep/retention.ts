import type { EntityManager } from '@mikro-orm/postgresql';
import { addressesKnownDays, failuresForgottenAfterSeconds } from '../../domain/accounts/sign-in-throttle.ts';
import { keptHours as idempotencyKeptHours } from '../accounts/idempotency.ts';
import { query } from '../core/query.ts';

/** How long rows of growing tables are kept. */
export interface Retention {
  eventsDays: number;
  notificationsDays: number;
  endedSandboxesDays: number;
  webhookDeliveriesDays: number;
  /**
   * The maximum number of rows that are kept for one account (for replies to idempotency keys: one caller), regardless
   * of their age.
   */
  rowsPerAccount: number;
}

/** The old rows of a table that may be removed. Names of columns are constants, never input of a caller. */
interface OldRows {
  table: string;
  /** The column by whose value rows are counted. */
  owner: string;
  /** The column of the time from which a row's age counts. It has an index. */
  since: string;
  /** The condition of rows that may be removed. */
  where: string;
}

const events: OldRows = { table: 'events', owner: 'account_id', since: 'created_at', where: 'true' };
const notifications: OldRows = { ...events, table: 'notifications' };
/** Kept for longer than a period of a yearly plan, because they record the thresholds that were reported in it. */
const budgetMessages: OldRows = { ...events, table: 'budget_messages' };
const budgetMessagesDays = 400;
/** A request that is still running renews the time of its claim. */
const replies: OldRows = { ...events, table: 'idempotency_keys', owner: 'caller' };
/** A sandbox's row stays until nothing of the sandbox is left on its host. */
const endedSandboxes: OldRows = {
  table: 'sandboxes',
  owner: 'account_id',
  since: 'coalesce(deleted_at, ended_at)',
  where: "status in ('terminated', 'failed') and not holds_compute and not holds_disk",
};

/**
 * Each of these functions returns the number of removed rows. Rows are removed in batches, so that no statement takes
 * long.
 */
export const purgeEvents = (em: EntityManager, kept: Retention, atOnce?: number): Promise<number> =>
  purge(em, events, days(kept.eventsDays), kept, atOnce);
/** Also removes the messages of budgets. */
export const purgeNotifications = async (em: EntityManager, kept: Retention, atOnce?: number): Promise<number> =>
  (await purge(em, notifications, days(kept.notificationsDays), kept, atOnce)) +
  (await purge(em, budgetMessages, days(budgetMessagesDays), kept, atOnce));
export const purgeEndedSandboxes = (em: EntityManager, kept: Retention, atOnce?: number): Promise<number> =>
  purge(em, endedSandboxes, days(kept.endedSandboxesDays), kept, atOnce);
export const purgeReplies = (em: EntityManager, kept: Retention, atOnce?: number): Promise<number> =>
  purge(em, replies, `${idempotencyKeptHours} hours`, kept, atOnce);

/**
 * Removes expired sessions, links and sign-ins, changes of e-mail addresses, audit events after a year, old counts of
 * failed sign-ins, and old known addresses.
 */
export async function purgeSignIns(em: EntityManager, atOnce = 5000): Promise<number> {
  let purged = await purgeAuditEvents(em, atOnce);
  for (const [table, where] of [
    // A stream that was opened in time may continue after the session's expiry.
    ['sessions', "expires_at < now() - interval '1 day'"],
    ['account_links', 'expires_at < now()'],
    ['used_sign_in_states', 'expires_at < now()'],
    ['email_changes', "status <> 'pending' and created_at < now() - interval '90 days'"],
    ['sign_in_throttles', `updated_at < now() - interval '${failuresForgottenAfterSeconds} seconds'`],
    ['known_addresses', `last_used_at < now() - interval '${addressesKnownDays} days'`],
  ] as const) {
    purged += await removeAll(em, { table, where }, 'true', [], atOnce);
  }
  return purged;
}

/** Only the owner of the table may remove events, so a function that runs as the owner does it. */
async function purgeAuditEvents(em: EntityManager, atOnce: number): Promise<number> {
  for (let removed = 0; ; ) {
    const [row] = await query<{ purged: number }>(em.fork(), 'select purge_audit_events(?) as purged', [atOnce]);
    removed += row!.purged;
    if (row!.purged < atOnce) return removed;
  }
}

const days = (count: number) => `${count} days`;

async function purge(em: EntityManager, rows: OldRows, age: string, kept: Retention, atOnce = 5000): Promise<number> {
  const ofAge = await removeAll(em, rows, `${rows.since} < now() - ?::interval`, [age], atOnce);
  return ofAge + (await purgeSurplus(em, rows, kept.rowsPerAccount, atOnce));
}

/** Removes the oldest rows of each owner with more rows than the maximum. */
async function purgeSurplus(em: EntityManager, rows: OldRows, most: number, atOnce: number): Promise<number> {
  const { table, owner, since, where } = rows;
  const owners = await query<{ id: string }>(
    em.fork(),
    `select ${owner} as id from ${table} where ${where} group by ${owner} having count(*) > ?`,
    [most],
  );
  let purged = 0;
  for (const { id } of owners) {
    // As text, because a Date only has milliseconds.
    const [newest] = await query<{ since: string | null }>(
      em.fork(),
      `select (${since})::text as since from ${table} where ${where} and ${owner} = ? order by ${since} desc offset ? limit 1`,
      [id, most],
    );
    if (!newest?.since) continue;
    purged += await removeAll(em, rows, `${owner} = ? and ${since} <= ?::timestamptz`, [id, newest.since], atOnce);
  }
  return purged;
}

async function removeAll(
  em: EntityManager,
  { table, where }: Pick<OldRows, 'table' | 'where'>,
  old: string,
  values: unknown[],
  atOnce: number,
): Promise<number> {
  for (let removed = 0; ; ) {
    const rows = await query(
      em.fork(),
      `delete from ${table} where ctid = any(array(select ctid from ${table} where ${where} and ${old} limit ?)) returning 1`,
      [...values, atOnce],
    );
    removed += rows.length;
    if (rows.length < atOnce) return removed;
  }
}

/**
 * Removes ended deliveries above the maximum number of their account, oldest first. Old deliveries are dropped with
 * their partition. Rows are addressed by their keys, because row locations (`ctid`) are not unique across partitions.
 */
export async function purgeWebhookDeliveries(em: EntityManager, kept: Retention, atOnce = 5000): Promise<number> {
  const accounts = await query<{ id: string }>(
    em.fork(),
    'select account_id as id from webhook_deliveries group by 1 having count(*) > ?',
    [kept.rowsPerAccount],
  );
  let purged = 0;
  for (const { id } of accounts) {
    const [newest] = await query<{ at: string }>(
      em.fork(),
      'select created_at::text as at from webhook_deliveries where account_id = ? order by created_at desc offset ? limit 1',
      [id, kept.rowsPerAccount],
    );
    for (let removed = atOnce; newest && removed === atOnce; purged += removed) {
      const rows = await query(
        em.fork(),
        `delete from webhook_deliveries where (delivery_id, created_at) in
           (select delivery_id, created_at from webhook_deliveries where account_id = ? and created_at <= ?::timestamptz
              and status in ('delivered', 'failed') limit ?) returning 1`,
        [id, newest.at, atOnce],
      );
      removed = rows.length;
    }
  }
  return purged;
}
