import type { EntityManager } from '@mikro-orm/postgresql';
import { computeTotals, type InvoiceTotals, prorationLines } from '../../domain/billing/invoice.ts';
import { type Amount, compare, isZero } from '../../domain/billing/money.ts';
import { planChoice } from '../../domain/billing/plan-choice.ts';
import type { Plan } from '../../domain/billing/plans.ts';
import { prorate } from '../../domain/billing/proration.ts';
import { AppError, notFound } from '../../domain/errors.ts';
import type { AccountId, InvoiceId, PlanChangeId } from '../../domain/ids.ts';
import { recordAudit } from '../accounts/audit-events.ts';
import { accountTransaction } from '../core/account-transaction.ts';
import { lockRow } from '../core/lock-row.ts';
import { newId } from '../core/new-id.ts';
import { requestStart } from '../core/outbox.ts';
import { type ListedTable, type Listing, type ListPage, readPage } from '../core/page.ts';
import { query } from '../core/query.ts';
import { type Scope, withinScope } from '../core/scope.ts';
import { issue, voidInvoice } from './invoice-payments.ts';
import { findInvoice, type Invoice, writeDraft } from './invoices.ts';
import { readBalance } from './ledger.ts';
import type { PlanCatalog } from './plans.ts';
import { findSubscription, recordSubscriptionEvent, type Subscription } from './subscriptions.ts';

/** A change to a more expensive plan, from its request to its end. */
export interface PlanChange {
  changeId: PlanChangeId;
  accountId: AccountId;
  plan: Plan;
  credit: Amount;
  status: 'running' | 'done' | 'failed';
  failureReason: string | null;
  requestedAt: Date;
}

/**
 * Changes an account's plan. A more expensive plan is paid at once for the rest of the period: from the balance, and
 * the rest by the workflow `acc-…/plan-change`. A cheaper plan is planned for the end of the period.
 * @param wanted.billed false: nothing is charged, and every change applies at once
 * @returns the id of the change in progress; null when the change is complete
 * @throws {AppError} `unknown_plan`, `plan_change_in_progress`, `payment_required`, `subscription_past_due`
 */
export function changePlan(
  em: EntityManager,
  plans: PlanCatalog,
  wanted: { accountId: AccountId; planName: string; at: Date; billed: boolean },
): Promise<PlanChangeId | null> {
  const { accountId, planName, at, billed } = wanted;
  const plan = plans.all.find((each) => each.planName === planName);
  if (!plan) {
    const names = plans.all.map((each) => each.planName).join(', ');
    throw new AppError('unknown_plan', `There is no such plan; plans are ${names}`);
  }
  return accountTransaction(em.fork(), accountId, async (tx) => {
    if (!(await lockRow(tx, 'accounts', accountId))) throw notFound('Account');
    const subscription = await findSubscription(tx, accountId);
    if (!subscription) throw notFound('Subscription');
    await requireNoChange(tx, subscription, at);
    const before = { plan_name: subscription.plan.planName, planned_plan_name: subscription.plannedPlanName };
    const choice = planChoice(subscription.plan, plan);
    const isPlanned = billed && choice === 'later';
    const after = isPlanned
      ? { plan_name: before.plan_name, planned_plan_name: planName }
      : { plan_name: planName, planned_plan_name: null };
    await recordAudit(tx, { accountId, objectId: subscription.subscriptionId, before, after });
    if (choice === 'keep' || isPlanned) {
      await query(tx, 'update subscriptions set planned_plan_name = ?, updated_at = now() where account_id = ?', [
        choice === 'keep' ? null : planName,
        accountId,
      ]);
      return null;
    }
    return billed ? buy(tx, subscription, plan, at) : take(tx, subscription, plan, at);
  });
}

async function requireNoChange(tx: EntityManager, { accountId, periodEnd }: Subscription, at: Date): Promise<void> {
  const running = await query(tx, "select 1 from plan_changes where account_id = ? and status = 'running'", [
    accountId,
  ]);
  if (running.length > 0) {
    throw new AppError('plan_change_in_progress', 'A change of the plan is running; wait until it has ended');
  }
  if (at >= periodEnd) {
    throw new AppError('plan_change_in_progress', 'The next period is about to begin; try again in a minute');
  }
}

/** Changes the plan without a charge. */
async function take(tx: EntityManager, subscription: Subscription, plan: Plan, at: Date): Promise<null> {
  const changeId = await addChange(tx, subscription.accountId, plan, '0', at);
  await switchPlan(tx, { changeId, plan, credit: '0', requestedAt: at }, subscription, null, at);
  return null;
}

async function buy(tx: EntityManager, subscription: Subscription, plan: Plan, at: Date): Promise<PlanChangeId | null> {
  const { accountId, plan: present, periodStart, periodEnd, taxRate } = subscription;
  if (subscription.status === 'past_due') {
    throw new AppError('subscription_past_due', 'An invoice of the account is past due; it must be paid first');
  }
  const { currency } = plan;
  const prices = { old: present.priceAmount, new: plan.priceAmount, currency };
  const period = { index: 0, startMs: periodStart.getTime(), endMs: periodEnd.getTime() };
  const { charge, credit } = prorate(prices, period, at.getTime());
  const lines = prorationLines({ old: present.displayName, new: plan.displayName }, { charge, credit }, currency);
  const totals = computeTotals(lines, taxRate, currency);
  if (isZero(totals.totalAmount)) return take(tx, subscription, plan, at);
  await requireMeans(tx, accountId, totals, currency);
  const changeId = await addChange(tx, accountId, plan, credit, at);
  const invoiceId = newId('invoice');
  await query(
    tx,
    `insert into invoices (invoice_id, account_id, kind, change_id, period_start, period_end, plan, currency, tax_rate)
     values (?, ?, 'plan_change', ?, ?, ?, ?::jsonb, ?, ?::numeric)`,
    [invoiceId, accountId, changeId, periodStart, periodEnd, JSON.stringify(plan), currency, taxRate],
  );
  await writeDraft(tx, invoiceId, lines, totals);
  const invoice = await issue(tx, (await findInvoice(tx, invoiceId))!, at);
  if (invoice.status === 'paid') {
    await switchPlan(tx, { changeId, plan, credit, requestedAt: at }, subscription, invoiceId, at);
    return null;
  }
  requestStart(tx, 'planChange', accountId, { accountId, changeId });
  return changeId;
}

/** @throws {AppError} `payment_required` */
async function requireMeans(
  tx: EntityManager,
  accountId: AccountId,
  { totalAmount }: InvoiceTotals,
  currency: string,
): Promise<void> {
  const balance = await readBalance(tx, accountId, currency);
  if (compare(balance, totalAmount) >= 0) return;
  const methods = await query(
    tx,
    'select 1 from payment_methods where account_id = ? and is_verified and not is_deleted limit 1',
    [accountId],
  );
  if (methods.length > 0) return;
  throw new AppError(
    'payment_required',
    `The change costs ${totalAmount} ${currency}; add a payment method first (the balance is ${balance} ${currency})`,
  );
}

async function addChange(
  tx: EntityManager,
  accountId: AccountId,
  plan: Plan,
  credit: Amount,
  at: Date,
): Promise<PlanChangeId> {
  const changeId = newId('planChange');
  await query(
    tx,
    'insert into plan_changes (change_id, account_id, plan, credit, requested_at) values (?, ?, ?::jsonb, ?::numeric, ?)',
    [changeId, accountId, JSON.stringify(plan), credit, at],
  );
  return changeId;
}

async function switchPlan(
  tx: EntityManager,
  { changeId, plan, credit, requestedAt }: Pick<PlanChange, 'changeId' | 'plan' | 'credit' | 'requestedAt'>,
  before: Subscription,
  invoiceId: InvoiceId | null,
  at: Date,
): Promise<void> {
  const { accountId, subscriptionId, periodStart, periodEnd } = before;
  await query(
    tx,
    'update subscriptions set plan = ?::jsonb, planned_plan_name = null, updated_at = now() where account_id = ?',
    [JSON.stringify(plan), accountId],
  );
  await query(tx, 'update accounts set plan_name = ?, updated_at = now() where account_id = ?', [
    plan.planName,
    accountId,
  ]);
  const isDearer = compare(plan.priceAmount, before.plan.priceAmount) >= 0;
  await query(
    tx,
    `insert into subscription_changes (change_id, account_id, subscription_id, change_reason, old_plan, new_plan, old_period_start,
       old_period_end, new_period_start, new_period_end, prorated_refund_amount, invoice_id, changed_at)
     values (?, ?, ?, ?, ?::jsonb, ?::jsonb, ?, ?, ?, ?, ?::numeric, ?, ?)`,
    [
      ...[changeId, accountId, subscriptionId, isDearer ? 'upgraded' : 'downgraded', JSON.stringify(before.plan)],
      ...[JSON.stringify(plan), periodStart, periodEnd, periodStart, periodEnd, credit, invoiceId, requestedAt],
    ],
  );
  await query(tx, "update plan_changes set status = 'done', ended_at = ? where change_id = ?", [at, changeId]);
  const after = (await findSubscription(tx, accountId))!;
  await recordSubscriptionEvent(tx, after, isDearer ? 'subscription.upgraded' : 'subscription.downgraded');
}

/** Null: there is none. */
export async function findPlanChange(em: EntityManager, changeId: PlanChangeId): Promise<PlanChange | null> {
  const [row] = await query<{
    change_id: PlanChangeId;
    account_id: AccountId;
    plan: Plan;
    credit: Amount;
    status: PlanChange['status'];
    failure_reason: string | null;
    requested_at: string;
  }>(
    em.isInTransaction() ? em : em.fork(),
    `select change_id, account_id, plan, trim_scale(credit)::text as credit, status, failure_reason, requested_at
       from plan_changes where change_id = ?`,
    [changeId],
  );
  return row
    ? {
        changeId: row.change_id,
        accountId: row.account_id,
        plan: row.plan,
        credit: row.credit,
        status: row.status,
        failureReason: row.failure_reason,
        requestedAt: new Date(row.requested_at),
      }
    : null;
}

/** The invoice of a change. */
export async function findInvoiceOfChange(em: EntityManager, changeId: PlanChangeId): Promise<Invoice> {
  const [row] = await query<{ invoice_id: InvoiceId }>(
    em.isInTransaction() ? em : em.fork(),
    'select invoice_id from invoices where change_id = ?',
    [changeId],
  );
  const invoice = row && (await findInvoice(em, row.invoice_id));
  if (!invoice) throw new Error(`${changeId} has no invoice`);
  return invoice;
}

/**
 * Ends a change whose charge has ended: with the new plan if its invoice is paid, otherwise the change is undone. Does
 * nothing if the change has already ended.
 */
export async function endPlanChange(em: EntityManager, changeId: PlanChangeId, at: Date): Promise<void> {
  await em.fork().transactional(async (tx) => {
    const { accountId } = (await findPlanChange(tx, changeId))!;
    await lockRow(tx, 'accounts', accountId);
    const change = (await findPlanChange(tx, changeId))!;
    if (change.status !== 'running') return;
    const { invoiceId } = await findInvoiceOfChange(tx, changeId);
    const invoice = (await findInvoice(tx, invoiceId, true))!;
    if (invoice.status === 'paid') {
      await switchPlan(tx, change, (await findSubscription(tx, accountId))!, invoiceId, at);
      return;
    }
    await voidInvoice(tx, invoice);
    await query(tx, "update plan_changes set status = 'failed', failure_reason = ?, ended_at = ? where change_id = ?", [
      invoice.failureReason,
      at,
      changeId,
    ]);
  });
}

/** A change of the plan that has taken effect. */
interface SubscriptionChange {
  changeId: string;
  accountId: AccountId;
  subscriptionId: string;
  reason: 'upgraded' | 'downgraded';
  oldPlan: Plan;
  newPlan: Plan;
  oldPeriod: { start: Date; end: Date };
  newPeriod: { start: Date; end: Date };
  proratedRefund: Amount;
  invoiceId: string | null;
  changedAt: Date;
}

const listed: ListedTable = { table: 'subscription_changes', alias: 'c', key: ['change_id'] };

export async function listSubscriptionChanges(
  em: EntityManager,
  scope: Scope,
  listing: Listing,
): Promise<ListPage & { changes: SubscriptionChange[] }> {
  const byTime = { ...listing, sortBy: 'changed_at' } as const;
  const { rows, ...page } = await readPage<SubscriptionChangeRow>(em, listed, [withinScope(scope, 'c')], byTime);
  const changes = rows.map((row) => ({
    changeId: row.change_id,
    accountId: row.account_id,
    subscriptionId: row.subscription_id,
    reason: row.change_reason,
    oldPlan: row.old_plan,
    newPlan: row.new_plan,
    oldPeriod: { start: new Date(row.old_period_start), end: new Date(row.old_period_end) },
    newPeriod: { start: new Date(row.new_period_start), end: new Date(row.new_period_end) },
    proratedRefund: row.prorated_refund_amount,
    invoiceId: row.invoice_id,
    changedAt: new Date(row.changed_at),
  }));
  return { changes, ...page };
}

interface SubscriptionChangeRow {
  change_id: string;
  account_id: AccountId;
  subscription_id: string;
  change_reason: SubscriptionChange['reason'];
  old_plan: Plan;
  new_plan: Plan;
  old_period_start: string;
  old_period_end: string;
  new_period_start: string;
  new_period_end: string;
  prorated_refund_amount: string;
  invoice_id: string | null;
  changed_at: string;
}
