import { createHash } from 'node:crypto';
import type { EntityManager } from '@mikro-orm/postgresql';
import { AppError } from '../../domain/errors.ts';
import type { AccountId, SandboxId, UserId } from '../../domain/ids.ts';
import { type QuotaHolder, quotaMonth, quotasReached } from '../../domain/usage/quotas.ts';
import { type UsageType, usageTypes } from '../../domain/usage/types.ts';
import { User } from '../accounts/user.entity.ts';
import { requestSignal } from '../core/outbox.ts';
import { query } from '../core/query.ts';
import { type EntityRow, readRow } from '../core/read-row.ts';
import { type Scope, withinScope } from '../core/scope.ts';
import { QuotaAllocation } from './quota-allocation.entity.ts';
import { findActiveAllocation } from './quota-allocations.ts';
import { sumUsage } from './usage-sums.ts';

/** True for allocations that limit metered usage. */
export const limitsWhatIsMetered =
  'coalesce(cpu_seconds_monthly, ram_gb_seconds, sandbox_storage_gb_seconds, traffic_gb_seconds) is not null';

/** The usage of a user or an account by type since the month began. */
export async function readMonthlyUse(
  em: EntityManager,
  holder: QuotaHolder,
  now: Date,
): Promise<{ [type in UsageType]?: number }> {
  const scope = toScope(holder);
  const own = withinScope(scope, 's');
  const sums = await sumUsage(em, { scope }, quotaMonth(now), now);
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
      where ${own.sql} and (s.phase_kind = 'running' or s.updated_at > now() - interval '8 days')`,
    [usageTypes.traffic_gb.perUnit, quotaMonth(now).start, ...own.values],
  );
  if (pending!.gb > 0) used.traffic_gb = (used.traffic_gb ?? 0) + pending!.gb;
  return used;
}

/**
 * Refuses one more running sandbox when a monthly quota of the user or of the account is used up. Call this in the
 * transaction that admits the sandbox.
 * @throws {AppError} `quota_used_up`
 */
export async function requireMeteredQuota(
  tx: EntityManager,
  { accountId, userId }: { accountId: AccountId; userId: UserId },
  now: Date,
): Promise<void> {
  for (const holder of [
    { accountId, userId },
    { accountId, userId: null },
  ]) {
    const quota = await findActiveAllocation(tx, holder);
    const limits = quota && withNulls(quota);
    if (!limits || !Object.values(limits).some(Boolean)) continue;
    const spent = quotasReached(limits, await readMonthlyUse(tx, holder, now)).find(({ usedUp }) => usedUp);
    if (!spent) continue;
    const whose = holder.userId === null ? "account's" : "user's";
    const nextMonth = quotaMonth(now).end.toISOString().slice(0, 10);
    throw new AppError(
      'quota_used_up',
      `The ${whose} quota of ${spent.name} is used up until ${nextMonth}; a root user of the account can allocate more`,
    );
  }
}

/**
 * Notifies the user, or the enabled root users for a quota of the account, when four fifths of a quota are used, and
 * again when it is used up: once a month for each field of the quota.
 * @returns the users and accounts whose quota is used up
 */
export async function warnOfQuotas(em: EntityManager, now: Date): Promise<QuotaHolder[]> {
  const spent: QuotaHolder[] = [];
  const rows = await query<EntityRow<QuotaAllocation>>(
    em.fork(),
    `select * from quota_allocations where status = 'active' and ${limitsWhatIsMetered}`,
  );
  for (const quota of rows.map((row) => readRow(em, QuotaAllocation, row))) {
    const holder = { accountId: quota.accountId, userId: quota.userId ?? null };
    const reached = quotasReached(withNulls(quota), await readMonthlyUse(em, holder, now));
    for (const { field, name, usedUp } of reached) await warn(em, quota, { field, name, usedUp }, now);
    if (reached.some(({ usedUp }) => usedUp)) spent.push(holder);
  }
  return spent;
}

/** Asks the workflows of the running sandboxes of a user or an account to pause them. @returns the number of asked ones */
export async function pauseSandboxes(em: EntityManager, holder: QuotaHolder): Promise<number> {
  const tx = em.fork();
  const own = withinScope(toScope(holder), 's');
  const rows = await query<{ sandbox_id: SandboxId }>(
    tx,
    `select sandbox_id from sandboxes s where ${own.sql} and status = 'running'`,
    own.values,
  );
  for (const { sandbox_id: id } of rows) {
    requestSignal(tx, 'sandbox', id, 'pauseRequested', { reason: 'quota_used_up' });
  }
  await tx.flush();
  return rows.length;
}

async function warn(
  em: EntityManager,
  { allocationId, accountId, userId = null }: QuotaAllocation,
  { field, name, usedUp }: { field: string; name: string; usedUp: boolean },
  now: Date,
): Promise<void> {
  const { start, end } = quotaMonth(now);
  // The id is derived from the subject of the notification, so that it is not added twice.
  const about = [allocationId, field, usedUp, start.toISOString()].join('/');
  const idFor = (recipient: UserId) => {
    const subject = userId === null ? `${about}/${recipient}` : about;
    return `ntf-${createHash('sha256').update(subject).digest('hex').slice(0, 20)}`;
  };
  const until = end.toISOString().slice(0, 10);
  const whose = userId === null ? "The account's quota" : 'Your quota';
  const who = userId === null ? 'the users of the account' : 'you';
  for (const recipient of userId === null ? await enabledRoots(em, accountId) : [userId]) {
    await query(
      em.fork(),
      `insert into notifications (id, account_id, user_id, title, message, type, category, related_entity_type, related_entity_id)
       values (?, ?, ?, ?, ?, ?, 'quota', 'quota_allocation', ?) on conflict (id) do nothing`,
      [
        ...[idFor(recipient), accountId, recipient],
        usedUp ? `${whose} of ${name} is used up` : `${whose} of ${name} is nearly used up`,
        usedUp
          ? `Until ${until}, or until the quota is raised, ${who} cannot create or resume sandboxes. Running sandboxes continue until their timeout.`
          : `80 % of this month's quota are used. When it is used up, ${who} cannot create or resume sandboxes until ${until}.`,
        usedUp ? 'quota_used_up' : 'quota_nearly_used_up',
        allocationId,
      ],
    );
  }
}

async function enabledRoots(em: EntityManager, accountId: AccountId): Promise<UserId[]> {
  const roots = await em.fork().find(User, { accountId, isRootUser: true, status: 'enabled' });
  return roots.map(({ userId }) => userId);
}

const toScope = ({ accountId, userId }: QuotaHolder): Scope =>
  userId === null ? { rows: 'account', accountId } : { rows: 'user', accountId, userId };

const withNulls = (quota: QuotaAllocation) => ({
  cpuSecondsMonthly: quota.cpuSecondsMonthly ?? null,
  ramGbSeconds: quota.ramGbSeconds ?? null,
  sandboxStorageGbSeconds: quota.sandboxStorageGbSeconds ?? null,
  trafficGbSeconds: quota.trafficGbSeconds ?? null,
});
