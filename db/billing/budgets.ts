import type { EntityManager } from '@mikro-orm/postgresql';
import type { AlertThreshold, LimitType } from '../../domain/billing/budget.ts';
import { type Amount, compare } from '../../domain/billing/money.ts';
import { notFound } from '../../domain/errors.ts';
import type { AccountId } from '../../domain/ids.ts';
import { type AuditedFields, recordAudit } from '../accounts/audit-events.ts';
import { accountTransaction } from '../core/account-transaction.ts';
import { requestSignal, requestStart } from '../core/outbox.ts';
import { query } from '../core/query.ts';
import { type BudgetRules, checkLocked, endRestriction } from './budget-checks.ts';
import { type Budget, lockBudget } from './budget-rows.ts';

/** The settings of an account's budget. */
export interface BudgetInput {
  amount: Amount;
  alertThresholds: readonly AlertThreshold[];
  limitType: LimitType;
  notificationEmails: readonly string[];
}

/**
 * Makes the budget of an account, compares the usage with it, and starts its workflow.
 * @param key `bgt-…`
 * @throws {AppError} `budget_exists`
 */
export async function createBudget(
  em: EntityManager,
  rules: BudgetRules,
  accountId: AccountId,
  key: string,
  input: BudgetInput,
): Promise<Budget> {
  return accountTransaction(em, accountId, async (tx) => {
    await query(
      tx,
      `insert into budgets (budget_key, account_id, amount, currency, alert_thresholds, limit_type, notification_emails)
       values (?, ?, ?::numeric, ?, ?::jsonb, ?, ?::jsonb)`,
      [
        ...[key, accountId, input.amount, rules.currency, JSON.stringify(input.alertThresholds), input.limitType],
        JSON.stringify(input.notificationEmails),
      ],
    );
    const made = (await lockBudget(tx, accountId))!;
    await recordAudit(tx, { accountId, objectId: key, before: null, after: audited(made) });
    requestStart(tx, 'budget', accountId, { accountId });
    // The workflow of a budget that was deleted a moment ago may still run. Then it continues with this budget.
    requestSignal(tx, 'budget', accountId, 'checkBudget', { because: 'edit' });
    return checkLocked(tx, rules, made, new Date());
  });
}

/**
 * Changes the budget of an account, and compares the usage with it, so a larger amount ends a restriction at once.
 * @throws {AppError} `not_found`
 */
export async function changeBudget(
  em: EntityManager,
  rules: BudgetRules,
  accountId: AccountId,
  input: { [field in keyof BudgetInput]?: BudgetInput[field] | undefined } & { isActive?: boolean | undefined },
): Promise<Budget> {
  return accountTransaction(em, accountId, async (tx) => {
    const before = await lockBudget(tx, accountId);
    if (!before) throw notFound('Budget');
    const now = new Date();
    const isNewAmount = input.amount !== undefined && compare(input.amount, before.amount) !== 0;
    const after: Budget = {
      ...before,
      amount: input.amount ?? before.amount,
      alertThresholds: input.alertThresholds ?? before.alertThresholds,
      limitType: input.limitType ?? before.limitType,
      notificationEmails: input.notificationEmails ?? before.notificationEmails,
      isActive: input.isActive ?? before.isActive,
      amountSetAtMs: isNewAmount ? now.getTime() : before.amountSetAtMs,
      updatedAt: now,
    };
    await recordAudit(tx, { accountId, objectId: before.key, before: audited(before), after: audited(after) });
    // Before the row becomes inactive.
    const present = after.isActive ? before : await endRestriction(tx, before, 'deactivated');
    await query(
      tx,
      `update budgets set amount = ?::numeric, alert_thresholds = ?::jsonb, limit_type = ?, notification_emails = ?::jsonb,
              is_active = ?, amount_set_at = ?::timestamptz, updated_at = ?::timestamptz where id = ?`,
      [
        ...[after.amount, JSON.stringify(after.alertThresholds), after.limitType],
        ...[JSON.stringify(after.notificationEmails), after.isActive, new Date(after.amountSetAtMs).toISOString()],
        ...[now.toISOString(), after.id],
      ],
    );
    requestSignal(tx, 'budget', accountId, 'checkBudget', { because: 'edit' });
    const { isRestricted, restrictedPeriodStartMs } = present;
    return checkLocked(tx, rules, { ...after, isRestricted, restrictedPeriodStartMs }, now);
  });
}

/**
 * Deletes the budget of an account, with its restriction. Its messages stay.
 * @throws {AppError} `not_found`
 */
export async function deleteBudget(em: EntityManager, accountId: AccountId): Promise<void> {
  await accountTransaction(em, accountId, async (tx) => {
    const budget = await lockBudget(tx, accountId);
    if (!budget) throw notFound('Budget');
    await recordAudit(tx, { accountId, objectId: budget.key, before: audited(budget), after: null });
    await endRestriction(tx, budget, 'deleted');
    await query(tx, 'delete from budgets where id = ?', [budget.id]);
    requestSignal(tx, 'budget', accountId, 'checkBudget', { because: 'edit' });
  });
}

/**
 * Starts the workflows of active budgets that were not checked for long, for example because an operator ended the
 * workflow.
 */
export async function reviveBudgetChecks(em: EntityManager): Promise<number> {
  const tx = em.fork();
  const rows = await query<{ account_id: AccountId }>(
    tx,
    "select account_id from budgets where is_active and checked_at < now() - interval '30 minutes' limit 10000",
  );
  for (const { account_id: accountId } of rows) requestStart(tx, 'budget', accountId, { accountId });
  await tx.flush();
  return rows.length;
}

function audited(budget: Budget): AuditedFields {
  return {
    budget_amount: `${budget.amount} ${budget.currency}`,
    alert_thresholds: budget.alertThresholds
      .map(({ percent, enabled }) => `${percent}${enabled ? '' : ' off'}`)
      .join(' '),
    limit_type: budget.limitType,
    notification_emails: budget.notificationEmails.join(' '),
    is_active: budget.isActive,
  };
}
