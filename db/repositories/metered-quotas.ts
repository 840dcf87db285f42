import { createHash } from 'node:crypto';
import type { EntityManager } from '@mikro-orm/postgresql';
import { AppError } from '../../domain/errors.ts';
import type { AccountId, SandboxId, UserId } from '../../domain/ids.ts';
import { quotaMonth, quotasReached } from '../../domain/quotas.ts';
import { type UsageType, usageTypes } from '../../domain/usage-types.ts';
import { QuotaAllocation } from '../entities/quota-allocation.ts';
import { query } from '../query.ts';
import { requestSignal } from './outbox.ts';
import { findActiveAllocation } from './quota-allocations.ts';
import { readRow } from './read-row.ts';
import { sumUsage } from './usage-sums.ts';

interface QuotaUser {
  accountId: AccountId;
  userId: UserId;
}

/** True for allocations that limit metered usage. */
export const limitsWhatIsMetered =
  'coalesce(cpu_seconds_monthly, ram_gb_seconds, sandbox_storage_gb_seconds, traffic_gb_seconds) is not null';

/** The usage of a user by type since the month began. */
export async function readMonthlyUse(
  em: EntityManager,
  { accountId, userId }: QuotaUser,
  now: Date,
): Promise<{ [type in UsageType]?: number }> {
  const sums = await sumUsage(em, { scope: { rows: 'user', accountId, userId } }, quotaMonth(now), now);
  const used: { [type in UsageType]?: number } = {};
  for (const { usageType, quantity } of sums) used[usageType] = (used[usageType] ?? 0) + Number(quantity);
  // Events of traffic are recorded once an hour.
  const [pending] = await query<{ gb: number }>(
    em.isInTransaction() ? em : em.fork(),
    `select coalesce(sum(m.received_bytes + m.sent_bytes) / ?, 0)::float8 as gb
       from sandboxes s left join usage_cursors c on c.resource_id = s.sandbox_id
      cross join lateral (
        select received_bytes, sent_bytes from sandbox_metrics_minutes
         where sandbox_id = s.sandbox_id and sampled_at > coalesce(c.metered_until, '-infinity') and sampled_at >= ?::timestamptz
      ) m
      where s.account_id = ? and s.owner_user_id = ? and (s.phase_kind = 'running' or s.updated_at > now() - interval '8 days')`,
    [usageTypes.traffic_gb.perUnit, quotaMonth(now).start, accountId, userId],
  );
  if (pending!.gb > 0) used.traffic_gb = (used.traffic_gb ?? 0) + pending!.gb;
  return used;
}

/**
 * Refuses one more running sandbox to a user whose monthly quota is used up. Call this in the transaction that admits
 * the sandbox.
 * @throws {AppError} `quota_used_up`
 */
export async function requireMeteredQuota(tx: EntityManager, user: QuotaUser, now: Date): Promise<void> {
  const quota = await findActiveAllocation(tx, user.userId);
  if (!quota) return;
  const spent = quotasReached(withNulls(quota), await readMonthlyUse(tx, user, now)).find(({ usedUp }) => usedUp);
  if (!spent) return;
  const nextMonth = quotaMonth(now).end.toISOString().slice(0, 10);
  throw new AppError(
    'quota_used_up',
    `The user's quota of ${spent.name} is used up until ${nextMonth}; a root user of the account can allocate more`,
  );
}

/**
 * Notifies users when four fifths of a quota are used, and again when it is used up: once a month for each field of the
 * quota.
 * @returns the users whose quota is used up
 */
export async function warnOfQuotas(em: EntityManager, now: Date): Promise<QuotaUser[]> {
  const spent: QuotaUser[] = [];
  const rows = await query<Record<string, unknown>>(
    em.fork(),
    `select * from quota_allocations where status = 'active' and ${limitsWhatIsMetered}`,
  );
  for (const quota of rows.map((row) => readRow(em, QuotaAllocation, row))) {
    const reached = quotasReached(withNulls(quota), await readMonthlyUse(em, quota, now));
    for (const { field, name, usedUp } of reached) await warn(em, quota, { field, name, usedUp }, now);
    if (reached.some(({ usedUp }) => usedUp)) spent.push(quota);
  }
  return spent;
}

/** Asks the workflows of a user's running sandboxes to pause them. @returns the number of asked sandboxes */
export async function pauseSandboxesOf(em: EntityManager, { accountId, userId }: QuotaUser): Promise<number> {
  const tx = em.fork();
  const rows = await query<{ sandbox_id: SandboxId }>(
    tx,
    "select sandbox_id from sandboxes where account_id = ? and owner_user_id = ? and status = 'running'",
    [accountId, userId],
  );
  for (const { sandbox_id: id } of rows) {
    requestSignal(tx, 'sandbox', id, 'pauseRequested', { reason: 'quota_used_up' });
  }
  await tx.flush();
  return rows.length;
}

async function warn(
  em: EntityManager,
  { allocationId, accountId, userId }: QuotaAllocation,
  { field, name, usedUp }: { field: string; name: string; usedUp: boolean },
  now: Date,
): Promise<void> {
  const { start, end } = quotaMonth(now);
  // The id is derived from the subject of the notification, so that it is not added twice.
  const about = [allocationId, field, usedUp, start.toISOString()].join('/');
  const id = `ntf-${createHash('sha256').update(about).digest('hex').slice(0, 20)}`;
  const until = end.toISOString().slice(0, 10);
  await query(
    em.fork(),
    `insert into notifications (id, account_id, user_id, title, message, type, category, related_entity_type, related_entity_id)
     values (?, ?, ?, ?, ?, ?, 'quota', 'quota_allocation', ?) on conflict (id) do nothing`,
    [
      ...[id, accountId, userId],
      usedUp ? `Your quota of ${name} is used up` : `Your quota of ${name} is nearly used up`,
      usedUp
        ? `You can create and resume sandboxes again on ${until}, or when you get a larger quota. Running sandboxes continue until their timeout.`
        : `You have used 80 % of this month's quota. When it is used up, you cannot create or resume sandboxes until ${until}.`,
      usedUp ? 'quota_used_up' : 'quota_nearly_used_up',
      allocationId,
    ],
  );
}

const withNulls = (quota: QuotaAllocation) => ({
  cpuSecondsMonthly: quota.cpuSecondsMonthly ?? null,
  ramGbSeconds: quota.ramGbSeconds ?? null,
  sandboxStorageGbSeconds: quota.sandboxStorageGbSeconds ?? null,
  trafficGbSeconds: quota.trafficGbSeconds ?? null,
});
