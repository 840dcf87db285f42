import type { EntityManager } from '@mikro-orm/postgresql';
import type { LimitType, ThresholdType } from '../../domain/billing/budget.ts';
import { type Amount, decimal, inUnits } from '../../domain/billing/money.ts';
import type { AccountId } from '../../domain/ids.ts';
import { type ListedTable, type Listing, readOne, readPage } from '../core/page.ts';
import { query } from '../core/query.ts';
import { type Scope, withinScope } from '../core/scope.ts';

/** The report of a threshold of a budget. */
export interface BudgetMessage {
  id: string;
  accountId: AccountId;
  budgetId: number;
  thresholdPercent: number;
  thresholdType: ThresholdType;
  limitType: LimitType;
  usageAmount: Amount;
  budgetAmount: Amount;
  currency: string;
  percentageUsed: Amount;
  /** The notification of each root user, by the user's id. */
  notificationIds: Readonly<Record<string, string>>;
  /** A mail server has accepted the mail for at least one recipient. */
  emailSent: boolean;
  emailRecipients: readonly string[];
  emailSubject: string;
  periodStart: Date;
  periodEnd: Date;
  createdAt: Date;
}

const listed: ListedTable = { table: 'budget_messages', alias: 'm', key: 'id' };

export async function listBudgetMessages(
  em: EntityManager,
  scope: Scope,
  listing: Listing,
): Promise<{ messages: BudgetMessage[]; total: number }> {
  const { rows, total } = await readPage(em, listed, [withinScope(scope, 'm')], listing);
  return { messages: rows.map(messageOf), total };
}

/** Null: the message does not exist any more. */
export async function findBudgetMessage(em: EntityManager, id: string): Promise<BudgetMessage | null> {
  const row = await readOne(em.fork(), listed, [{ sql: 'm.id = ?', values: [id] }]);
  return row && messageOf(row);
}

export async function recordBudgetMailSent(em: EntityManager, id: string): Promise<void> {
  await query(em.fork(), 'update budget_messages set email_sent = true where id = ?', [id]);
}

function messageOf(row: Record<string, unknown>): BudgetMessage {
  const currency = row.currency as string;
  const time = (column: string) => new Date(row[column] as string);
  return {
    id: row.id as string,
    accountId: row.account_id as AccountId,
    budgetId: Number(row.budget_id),
    thresholdPercent: row.threshold_percent as number,
    thresholdType: row.threshold_type as ThresholdType,
    limitType: row.limit_type as LimitType,
    usageAmount: row.usage_amount as string,
    budgetAmount: inUnits(decimal(row.budget_amount as string), currency),
    currency,
    percentageUsed: row.percentage_used as string,
    notificationIds: row.notification_ids as Record<string, string>,
    emailSent: row.email_sent as boolean,
    emailRecipients: (row.email_recipients as string).split(', ').filter(Boolean),
    emailSubject: row.email_subject as string,
    periodStart: time('period_start'),
    periodEnd: time('period_end'),
    createdAt: time('created_at'),
  };
}
