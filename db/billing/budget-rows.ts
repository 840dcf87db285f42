import type { EntityManager } from '@mikro-orm/postgresql';
import type { AlertThreshold, BudgetTerms, LimitType } from '../../domain/billing/budget.ts';
import { decimal, inUnits } from '../../domain/billing/money.ts';
import { AppError } from '../../domain/errors.ts';
import type { AccountId } from '../../domain/ids.ts';
import { query } from '../core/query.ts';

/**
 * The amount that an account wants to spend on usage in a period of its subscription. An account has at most one
 * budget.
 */
export interface Budget extends BudgetTerms {
  id: number;
  /** The id of the budget in events and in the audit log. */
  key: string;
  accountId: AccountId;
  currency: string;
  notificationEmails: readonly string[];
  isRestricted: boolean;
  /** The start of the restricted period. Null: no period is restricted. */
  restrictedPeriodStartMs: number | null;
  createdAt: Date;
  updatedAt: Date;
}

/** Null: the account has none. */
export async function findBudget(em: EntityManager, accountId: AccountId): Promise<Budget | null> {
  const [row] = await query<BudgetRow>(em, 'select * from budgets where account_id = ?', [accountId]);
  return row ? toBudget(row) : null;
}

/** Locks the budget of an account until the transaction ends. Null: it has none. */
export async function lockBudget(tx: EntityManager, accountId: AccountId): Promise<Budget | null> {
  const [row] = await query<BudgetRow>(tx, 'select * from budgets where account_id = ? for no key update', [accountId]);
  return row ? toBudget(row) : null;
}

/**
 * Refuses actions that cost money while a hard limit is used up. Call this in the transaction that makes the object,
 * with the account's row locked.
 * @throws {AppError} `budget_restricted`
 */
export async function requireBudget(tx: EntityManager, accountId: AccountId): Promise<void> {
  const [row] = await query<{ is_restricted: boolean }>(tx, 'select is_restricted from budgets where account_id = ?', [
    accountId,
  ]);
  if (row?.is_restricted) throw budgetRestricted();
}

export function budgetRestricted(): AppError {
  return new AppError(
    'budget_restricted',
    "The account's budget is used up; a root user can raise it, or wait for the next period of the subscription",
  );
}

interface BudgetRow {
  id: string;
  budget_key: string;
  account_id: AccountId;
  amount: string;
  currency: string;
  alert_thresholds: AlertThreshold[];
  limit_type: LimitType;
  notification_emails: string[];
  is_active: boolean;
  is_restricted: boolean;
  restricted_period_start: string | null;
  amount_set_at: string;
  checked_at: string;
  created_at: string;
  updated_at: string;
}

function toBudget(row: BudgetRow): Budget {
  const { currency, restricted_period_start: restrictedFrom } = row;
  return {
    id: Number(row.id),
    key: row.budget_key,
    accountId: row.account_id,
    amount: inUnits(decimal(row.amount), currency),
    currency,
    alertThresholds: row.alert_thresholds,
    limitType: row.limit_type,
    notificationEmails: row.notification_emails,
    isActive: row.is_active,
    isRestricted: row.is_restricted,
    restrictedPeriodStartMs: restrictedFrom === null ? null : new Date(restrictedFrom).getTime(),
    amountSetAtMs: new Date(row.amount_set_at).getTime(),
    createdAt: new Date(row.created_at),
    updatedAt: new Date(row.updated_at),
  };
}
