import type { EntityManager } from '@mikro-orm/postgresql';
import type { InvoiceLine, InvoiceStatus } from '../../domain/billing/invoice.ts';
import type { PricedUsage } from '../../domain/billing/late-usage.ts';
import { type Amount, decimal, inUnits } from '../../domain/billing/money.ts';
import type { Plan } from '../../domain/billing/plans.ts';
import type { AccountId, InvoiceId, PlanChangeId } from '../../domain/ids.ts';
import { type ListedTable, type Listing, type ListPage, readPage } from '../core/page.ts';
import { query } from '../core/query.ts';
import { type Scope, type SqlCondition, withinScope } from '../core/scope.ts';

/**
 * An invoice: of a whole period (`period`), issued after the period, or of a change to a more expensive plan
 * (`plan_change`).
 */
export interface Invoice {
  invoiceId: InvoiceId;
  accountId: AccountId;
  kind: 'period' | 'plan_change';
  changeId: PlanChangeId | null;
  periodStart: Date;
  periodEnd: Date;
  /** The plan in its lines. For a period, the plan with which it began. */
  plan: Plan;
  currency: string;
  taxRate: string;
  subtotal: Amount;
  taxAmount: Amount;
  totalAmount: Amount;
  /** The rest of the total is charged. */
  paidFromBalance: Amount;
  status: InvoiceStatus;
  issuedAt: Date | null;
  dueAt: Date | null;
  paidAt: Date | null;
  chargeAttempts: number;
  firstAttemptAt: Date | null;
  failureReason: string | null;
  createdAt: Date;
  updatedAt: Date;
  /** The charge that pays it, and the payment method of the charge. Null: there is none. */
  paymentIntentId: string | null;
  paymentMethodId: string | null;
  lines: InvoiceLine[];
}

const listed = {
  table: 'invoices',
  alias: 'v',
  key: ['invoice_id'],
  beside: `trim_scale(v.tax_rate)::text as trimmed_tax_rate, p.payment_intent_id, p.payment_method_id,
    (select coalesce(jsonb_agg(jsonb_build_object('type', l.type, 'description', l.description,
            'quantity', trim_scale(l.quantity)::text, 'unitPrice', trim_scale(l.unit_price)::text, 'amount', l.amount::text)
            order by l.position), '[]') from invoice_lines l where l.invoice_id = v.invoice_id) as lines`,
  joins: 'left join payment_intents p on p.invoice_id = v.invoice_id',
} as const satisfies ListedTable;

/** @param conditions in addition to the scope, on the alias `v` */
export async function listInvoices(
  em: EntityManager,
  scope: Scope,
  listing: Listing,
  conditions: readonly SqlCondition[] = [],
): Promise<ListPage & { invoices: Invoice[] }> {
  const { rows, ...page } = await readPage<InvoiceRow>(em, listed, [withinScope(scope, 'v'), ...conditions], listing);
  return { invoices: rows.map(toInvoice), ...page };
}

/** Null: there is none. @param lock until the transaction ends */
export async function findInvoice(em: EntityManager, invoiceId: string, lock = false): Promise<Invoice | null> {
  const { table, alias, beside, joins } = listed;
  const [row] = await query<InvoiceRow>(
    em.isInTransaction() ? em : em.fork(),
    `select ${alias}.*, ${beside} from ${table} ${alias} ${joins} where ${alias}.invoice_id = ?
      ${lock ? `for update of ${alias}` : ''}`,
    [invoiceId],
  );
  return row ? toInvoice(row) : null;
}

/** The invoice of the period that began at this time. Null: there is none. */
export function findPeriodInvoice(em: EntityManager, accountId: AccountId, start: Date): Promise<Invoice | null> {
  return findByBound(em, accountId, 'period_start', start);
}

/** The invoice of the period that ended at this time. Null: there is none. */
export function findPeriodInvoiceEndingAt(em: EntityManager, accountId: AccountId, end: Date): Promise<Invoice | null> {
  return findByBound(em, accountId, 'period_end', end);
}

async function findByBound(
  em: EntityManager,
  accountId: AccountId,
  column: 'period_start' | 'period_end',
  at: Date,
): Promise<Invoice | null> {
  const [row] = await query<{ invoice_id: string }>(
    em.isInTransaction() ? em : em.fork(),
    `select invoice_id from invoices where account_id = ? and ${column} = ? and kind = 'period'`,
    [accountId, at],
  );
  return row ? findInvoice(em, row.invoice_id) : null;
}

interface InvoiceRow {
  invoice_id: InvoiceId;
  account_id: AccountId;
  kind: Invoice['kind'];
  change_id: PlanChangeId | null;
  period_start: string;
  period_end: string;
  plan: Plan;
  currency: string;
  tax_rate: string;
  subtotal: string;
  tax_amount: string;
  total_amount: string;
  paid_from_balance: string;
  status: InvoiceStatus;
  issue_at: string | null;
  issued_at: string | null;
  due_at: string | null;
  paid_at: string | null;
  charge_attempts: number;
  first_attempt_at: string | null;
  last_attempt_at: string | null;
  next_charge_at: string | null;
  failure_reason: string | null;
  created_at: string;
  updated_at: string;
  billed_usage: BilledUsage[] | null;
  trimmed_tax_rate: string;
  payment_intent_id: string | null;
  payment_method_id: string | null;
  lines: InvoiceLine[];
}

function toInvoice(row: InvoiceRow): Invoice {
  const { currency } = row;
  const amount = (value: string) => inUnits(decimal(value), currency);
  const time = (value: string | null) => (value === null ? null : new Date(value));
  return {
    invoiceId: row.invoice_id,
    accountId: row.account_id,
    kind: row.kind,
    changeId: row.change_id,
    periodStart: new Date(row.period_start),
    periodEnd: new Date(row.period_end),
    plan: row.plan,
    currency,
    taxRate: row.trimmed_tax_rate,
    subtotal: amount(row.subtotal),
    taxAmount: amount(row.tax_amount),
    totalAmount: amount(row.total_amount),
    paidFromBalance: amount(row.paid_from_balance),
    status: row.status,
    issuedAt: time(row.issued_at),
    dueAt: time(row.due_at),
    paidAt: time(row.paid_at),
    chargeAttempts: row.charge_attempts,
    firstAttemptAt: time(row.first_attempt_at),
    failureReason: row.failure_reason,
    createdAt: new Date(row.created_at),
    updatedAt: new Date(row.updated_at),
    paymentIntentId: row.payment_intent_id,
    paymentMethodId: row.payment_method_id,
    lines: row.lines.map((line) => ({ ...line, amount: amount(line.amount) })),
  };
}

/** The billed usage of a period. */
export interface BilledUsage extends PricedUsage {
  /** The start of the period, RFC 3339. */
  periodStart: string;
}

/**
 * Replaces the lines and sums of a draft.
 * @param billedUsage the usage in the lines; null: they contain no usage
 */
export async function writeDraft(
  tx: EntityManager,
  invoiceId: InvoiceId,
  lines: readonly InvoiceLine[],
  totals: { subtotal: Amount; taxAmount: Amount; totalAmount: Amount },
  billedUsage: readonly BilledUsage[] | null = null,
): Promise<void> {
  await query(tx, 'delete from invoice_lines where invoice_id = ?', [invoiceId]);
  for (const [position, { type, description, quantity, unitPrice, amount }] of lines.entries()) {
    await query(
      tx,
      `insert into invoice_lines (invoice_id, position, type, description, quantity, unit_price, amount)
       values (?, ?, ?, ?, ?::numeric, ?::numeric, ?::numeric)`,
      [invoiceId, position, type, description, quantity, unitPrice, amount],
    );
  }
  await query(
    tx,
    `update invoices set subtotal = ?::numeric, tax_amount = ?::numeric, total_amount = ?::numeric, billed_usage = ?::jsonb,
            updated_at = now() where invoice_id = ?`,
    [
      ...[totals.subtotal, totals.taxAmount, totals.totalAmount],
      ...[billedUsage && JSON.stringify(billedUsage), invoiceId],
    ],
  );
}
