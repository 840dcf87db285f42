import type { EntityManager } from '@mikro-orm/postgresql';
import type { LimitType, ThresholdType } from '../../domain/billing/budget.ts';
import { type Amount, decimal, inUnits } from '../../domain/billing/money.ts';
import type { AccountId } from '../../domain/ids.ts';
import { type ListedTable, type Listing, type ListPage, readOne, readPage } from '../core/page.ts';
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

const listed: ListedTable = { table: 'budget_messages', alias: 'm', key: ['id'] };

export async function listBudgetMessages(
  em: EntityManager,
  scope: Scope,
  listing: Listing,
): Promise<ListPage & { messages: BudgetMessage[] }> {
  const { rows, ...page } = await readPage<MessageRow>(em, listed, [withinScope(scope, 'm')], listing);
  return { messages: rows.map(toBudgetMessage), ...page };
}

/** Null: the message does not exist any more. */
export async function findBudgetMessage(em: EntityManager, id: string): Promise<BudgetMessage | null> {
  const row = await readOne<MessageRow>(em.fork(), listed, [{ sql: 'm.id = ?', values: [id] }]);
  return row && toBudgetMessage(row);
}

export async function recordBudgetMailSent(em: EntityManager, id: string): Promise<void> {
  await query(em.fork(), 'update budget_messages set email_sent = true where id = ?', [id]);
}

interface MessageRow {
  id: string;
  account_id: AccountId;
  budget_id: string;
  threshold_percent: number;
  threshold_type: ThresholdType;
  usage_amount: string;
  budget_amount: string;
  currency: string;
  percentage_used: string;
  limit_type: LimitType;
  notification_ids: Record<string, string>;
  email_sent: boolean;
  email_recipients: string;
  email_subject: string;
  period_start: string;
  period_end: string;
  created_at: string;
}

function toBudgetMessage(row: MessageRow): BudgetMessage {
  return {
    id: row.id,
    accountId: row.account_id,
    budgetId: Number(row.budget_id),
    thresholdPercent: row.threshold_percent,
    thresholdType: row.threshold_type,
    limitType: row.limit_type,
    usageAmount: row.usage_amount,
    budgetAmount: inUnits(decimal(row.budget_amount), row.currency),
    currency: row.currency,
    percentageUsed: row.percentage_used,
    notificationIds: row.notification_ids,
    emailSent: row.email_sent,
    emailRecipients: row.email_recipients.split(', ').filter(Boolean),
    emailSubject: row.email_subject,
    periodStart: new Date(row.period_start),
    periodEnd: new Date(row.period_end),
    createdAt: new Date(row.created_at),
  };
}
