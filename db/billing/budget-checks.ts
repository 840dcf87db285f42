import type { EntityManager } from '@mikro-orm/postgresql';
import { emailKey } from '../../domain/accounts/email-address.ts';
import {
  checkIntervalMinutes,
  exactSum,
  maxMailedMessagesADay,
  percentageUsed,
  restricts,
  type ThresholdReport,
  thresholdsToReport,
  toThresholdType,
} from '../../domain/billing/budget.ts';
import { budgetAlertTitle } from '../../domain/billing/budget-texts.ts';
import { type Amount, decimal } from '../../domain/billing/money.ts';
import type { AccountId, NotificationId, SandboxId, UserId } from '../../domain/ids.ts';
import { Notification } from '../accounts/notification.entity.ts';
import { User } from '../accounts/user.entity.ts';
import { recordEvent } from '../core/events.ts';
import { newId } from '../core/new-id.ts';
import { requestSignal, requestStart } from '../core/outbox.ts';
import { query } from '../core/query.ts';
import { sumUsage } from '../usage/usage-sums.ts';
import { type Budget, lockBudget } from './budget-rows.ts';
import { currentPeriod, findSubscription } from './subscriptions.ts';

/** The rules for budgets in addition to their rows. */
export interface BudgetRules {
  /** The currency of all plans. */
  currency: string;
  /** False: nothing costs money, so a hard limit only alerts. */
  isBilled: boolean;
  /** Running sandboxes are paused while a hard limit is used up. */
  pausesSandboxes: boolean;
}

/** The reason for the end of a restriction. */
type Relief = 'budget_changed' | 'new_period' | 'deactivated' | 'deleted' | 'not_billed';

/** The cost of an account's usage in the current period of its subscription. */
export interface PeriodUsage {
  period: { start: Date; end: Date };
  /** The exact amount. */
  used: Amount;
}

export async function readPeriodUsage(em: EntityManager, accountId: AccountId, now: Date): Promise<PeriodUsage> {
  const period = await readPeriod(em, accountId, now);
  const sums = await sumUsage(em, { scope: { rows: 'account', accountId } }, period, now);
  return { period, used: exactSum(sums.map(({ cost }) => cost)) };
}

/** @throws when the account has no subscription: its plan is not in the plans' file, which is an operator's mistake */
async function readPeriod(em: EntityManager, accountId: AccountId, now: Date): Promise<{ start: Date; end: Date }> {
  const subscription = await findSubscription(em, accountId);
  if (!subscription) throw new Error(`${accountId} has no subscription`);
  return currentPeriod(subscription, now);
}

/**
 * Compares the usage of an account with its budget.
 * @returns the time of the next check, in Unix milliseconds; null when the account has no budget
 */
export async function checkBudget(
  em: EntityManager,
  rules: BudgetRules,
  accountId: AccountId,
  now: Date,
): Promise<number | null> {
  return em.fork().transactional(async (tx) => {
    const budget = await lockBudget(tx, accountId);
    if (!budget) return null;
    await checkLocked(tx, rules, budget, now);
    const { end } = await readPeriod(tx, accountId, now);
    return Math.min(now.getTime() + checkIntervalMinutes * 60_000, end.getTime());
  });
}

/**
 * Compares the usage with a budget whose row is locked: reports thresholds, and begins or ends its restriction.
 * @returns the budget after that
 */
export async function checkLocked(tx: EntityManager, rules: BudgetRules, budget: Budget, now: Date): Promise<Budget> {
  await query(tx, 'update budgets set checked_at = now() where id = ?', [budget.id]);
  if (!budget.isActive) return budget;
  const usage = await readPeriodUsage(tx, budget.accountId, now);
  const times = { periodStartMs: usage.period.start.getTime(), nowMs: now.getTime() };
  const reports = await newestReports(tx, budget.accountId);
  for (const [index, percent] of thresholdsToReport(budget, usage.used, reports, times).entries()) {
    // The times are a millisecond apart, so that lists keep the order.
    await report(tx, budget, usage, percent, new Date(now.getTime() + index));
  }
  const isRestricted = rules.isBilled && restricts(budget, usage.used);
  // Done at each check, because a sandbox that was admitted before the limit was used up may begin to run later.
  if (isRestricted && rules.pausesSandboxes) await pauseSandboxes(tx, budget.accountId);
  if (isRestricted && !budget.isRestricted) return beginRestriction(tx, budget, usage);
  if (!isRestricted && budget.isRestricted) {
    const isNewPeriod = budget.restrictedPeriodStartMs !== usage.period.start.getTime();
    return endRestriction(tx, budget, !rules.isBilled ? 'not_billed' : isNewPeriod ? 'new_period' : 'budget_changed');
  }
  return budget;
}

/** The newest report of each threshold, including reports of deleted budgets. */
async function newestReports(tx: EntityManager, accountId: AccountId): Promise<ThresholdReport[]> {
  const rows = await query<{ percent: number; period_start: string; created_at: string }>(
    tx,
    `select distinct on (threshold_percent) threshold_percent as percent, period_start, created_at
       from budget_messages where account_id = ? order by threshold_percent, created_at desc`,
    [accountId],
  );
  return rows.map((row) => ({
    percent: row.percent,
    periodStartMs: new Date(row.period_start).getTime(),
    atMs: new Date(row.created_at).getTime(),
  }));
}

/** Adds the message of a threshold, with its notifications, its event and its mails. */
async function report(
  tx: EntityManager,
  budget: Budget,
  { period, used }: PeriodUsage,
  percent: number,
  now: Date,
): Promise<void> {
  const { accountId, currency } = budget;
  const id = newId('budgetMessage');
  const percentage = percentageUsed(used, budget.amount);
  const recipients = (await mayMail(tx, accountId, now)) ? await readRecipients(tx, budget) : [];
  const notificationIds = await notifyRoots(tx, budget, {
    title: budgetAlertTitle(percent),
    message: `${shown(used)} ${currency} of ${budget.amount} ${currency} are used in the period until ${formatDay(period.end)}.`,
    type: 'budget_threshold',
  });
  await query(
    tx,
    `insert into budget_messages (id, account_id, budget_id, threshold_percent, threshold_type, usage_amount, budget_amount,
       currency, percentage_used, limit_type, notification_ids, email_recipients, email_subject, period_start, period_end,
       created_at)
     values (?, ?, ?, ?, ?, ?::numeric, ?::numeric, ?, ?::numeric, ?, ?::jsonb, ?, ?, ?::timestamptz, ?::timestamptz,
             ?::timestamptz)`,
    [
      ...[
        id,
        accountId,
        budget.id,
        percent,
        toThresholdType(percent),
        shown(used),
        budget.amount,
        currency,
        percentage,
      ],
      ...[budget.limitType, JSON.stringify(notificationIds), recipients.join(', '), budgetAlertTitle(percent)],
      ...[period.start, period.end, now].map((time) => time.toISOString()),
    ],
  );
  await recordBudgetEvent(tx, budget, 'budget.threshold_crossed', {
    ...presentUsage(budget, { period, used }),
    threshold_percent: percent,
    message_id: id,
  });
  if (recipients.length > 0) requestStart(tx, 'budgetMail', id, { accountId, messageId: id });
}

async function beginRestriction(tx: EntityManager, budget: Budget, usage: PeriodUsage): Promise<Budget> {
  const { start, end } = usage.period;
  await query(tx, 'update budgets set is_restricted = true, restricted_period_start = ?::timestamptz where id = ?', [
    ...[start.toISOString(), budget.id],
  ]);
  await notifyRoots(tx, budget, {
    title: 'Your budget refuses new sandboxes',
    message: `The hard limit of ${budget.amount} ${budget.currency} is used up. Sandboxes and templates can be created, and sandboxes resumed, again on ${formatDay(end)}, or when you raise the budget. Running sandboxes continue.`,
    type: 'budget_restricted',
  });
  await recordBudgetEvent(tx, budget, 'budget.restricted', presentUsage(budget, usage));
  return { ...budget, isRestricted: true, restrictedPeriodStartMs: start.getTime() };
}

/** Asks the workflows of an account's running sandboxes to pause them. */
async function pauseSandboxes(tx: EntityManager, accountId: AccountId): Promise<void> {
  const rows = await query<{ sandbox_id: SandboxId }>(
    tx,
    "select sandbox_id from sandboxes where account_id = ? and status = 'running'",
    [accountId],
  );
  for (const { sandbox_id: id } of rows) {
    requestSignal(tx, 'sandbox', id, 'pauseRequested', { reason: 'budget_restricted' });
  }
}

/** Ends the restriction of a budget whose row is locked, if it has one. @returns the budget after that */
export async function endRestriction(tx: EntityManager, budget: Budget, because: Relief): Promise<Budget> {
  if (!budget.isRestricted) return budget;
  await query(tx, 'update budgets set is_restricted = false, restricted_period_start = null where id = ?', [budget.id]);
  await notifyRoots(tx, budget, {
    title: 'Your budget no longer refuses requests',
    message: 'Sandboxes and templates can be created, and sandboxes resumed, again.',
    type: 'budget_restored',
  });
  await recordBudgetEvent(tx, budget, 'budget.restored', { because });
  return { ...budget, isRestricted: false, restrictedPeriodStartMs: null };
}

function recordBudgetEvent(tx: EntityManager, budget: Budget, type: string, more: Record<string, unknown>) {
  const { key, id, accountId, amount, currency, limitType } = budget;
  return recordEvent(tx, { objectId: key, accountId, userId: null }, type, {
    ...{ account_id: accountId, budget_id: id, budget_amount: Number(amount), currency, limit_type: limitType },
    ...more,
  });
}

const presentUsage = ({ amount }: Budget, { period, used }: PeriodUsage) => ({
  amount_used: Number(shown(used)),
  percentage_used: Number(percentageUsed(used, amount)),
  period_start: period.start.toISOString(),
  period_end: period.end.toISOString(),
});

/** Notifies the enabled root users of the account. @returns the ids of the notifications */
async function notifyRoots(
  tx: EntityManager,
  { id, accountId }: Budget,
  text: { title: string; message: string; type: string },
): Promise<Record<UserId, NotificationId>> {
  const ids: Record<UserId, NotificationId> = {};
  const category = 'budget';
  for (const { userId } of await tx.find(User, { accountId, isRootUser: true, status: 'enabled' })) {
    ids[userId] = newId('notification');
    const about = { relatedEntityType: 'budget', relatedEntityId: String(id) };
    tx.create(Notification, { id: ids[userId], accountId, userId, ...text, category, ...about }, { persist: true });
  }
  return ids;
}

/** The account's own address and those of the budget, without duplicates. */
async function readRecipients(tx: EntityManager, { accountId, notificationEmails }: Budget): Promise<string[]> {
  const [account] = await query<{ email: string }>(tx, 'select email from accounts where account_id = ?', [accountId]);
  const byKey = new Map([account!.email, ...notificationEmails].map((address) => [emailKey(address), address]));
  return [...byKey.values()];
}

/** Limits the mails, because the addresses may belong to strangers, and budgets may be changed any number of times. */
async function mayMail(tx: EntityManager, accountId: AccountId, now: Date): Promise<boolean> {
  const [row] = await query<{ mailed: number }>(
    tx,
    `select count(*)::int as mailed from budget_messages
      where account_id = ? and email_recipients <> '' and created_at > ?::timestamptz - interval '24 hours'`,
    [accountId, now.toISOString()],
  );
  return row!.mailed < maxMailedMessagesADay;
}

/** Rounds down to six digits. */
const shown = (used: Amount) => decimal(used).round(6, 0).toFixed(6);

const formatDay = (time: Date) => time.toISOString().slice(0, 10);
