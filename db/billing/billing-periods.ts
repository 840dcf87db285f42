import type { EntityManager } from '@mikro-orm/postgresql';
import type { BillingStep } from '../../domain/billing/billing-step.ts';
import { closingMs } from '../../domain/billing/dunning.ts';
import { computeTotals } from '../../domain/billing/invoice.ts';
import { periodAt } from '../../domain/billing/periods.ts';
import type { AccountId, InvoiceId } from '../../domain/ids.ts';
import { lockRow } from '../core/lock-row.ts';
import { newId } from '../core/new-id.ts';
import { query } from '../core/query.ts';
import { billOfPeriod, readLateUsage } from './invoice-lines.ts';
import { issue } from './invoice-payments.ts';
import { findInvoice, findPeriodInvoice, type Invoice, writeDraft } from './invoices.ts';
import type { PlanCatalog } from './plans.ts';
import { findSubscription, recordSubscriptionEvent, type Subscription } from './subscriptions.ts';

/**
 * The next billing step of an account.
 * @param billed false: periods pass, but no invoices are issued or charged
 * @returns null when the account no longer has a subscription
 */
export async function findNextBillingStep(
  em: EntityManager,
  accountId: AccountId,
  billed: boolean,
): Promise<BillingStep | null> {
  const subscription = await findSubscription(em, accountId);
  if (!subscription || subscription.status === 'canceled') return null;
  const renewal: BillingStep = { kind: 'renew', dueMs: subscription.periodEnd.getTime() };
  if (!billed) return renewal;
  const [invoice] = await query<{ invoice_id: InvoiceId; status: string; due: string }>(
    em.fork(),
    `select invoice_id, status, coalesce(issue_at, next_charge_at) as due from invoices
      where account_id = ? and kind = 'period' and status in ('draft', 'open', 'past_due')
        and coalesce(issue_at, next_charge_at) is not null order by due, invoice_id limit 1`,
    [accountId],
  );
  const dueMs = invoice ? new Date(invoice.due).getTime() : Number.POSITIVE_INFINITY;
  if (!invoice || dueMs > renewal.dueMs) return renewal;
  return { kind: invoice.status === 'draft' ? 'issue' : 'charge', dueMs, invoiceId: invoice.invoice_id, accountId };
}

/**
 * Begins the next period with the planned plan, or with the current one, at the terms of the current plans' file. The
 * invoice of the ended period stays a draft until late usage has arrived.
 * @returns false when a change of the plan is in progress, which belongs to the ended period
 */
export async function renew(
  em: EntityManager,
  plans: PlanCatalog,
  { accountId, at, billed }: { accountId: AccountId; at: Date; billed: boolean },
): Promise<boolean> {
  return em.fork().transactional(async (tx) => {
    await lockRow(tx, 'accounts', accountId);
    const before = await findSubscription(tx, accountId);
    if (!before || before.periodEnd > at) return true;
    const changing = await query(tx, "select 1 from plan_changes where account_id = ? and status = 'running'", [
      accountId,
    ]);
    if (changing.length > 0) return false;
    if (billed) {
      const draft = await bringDraft(tx, before);
      await query(tx, 'update invoices set issue_at = ? where invoice_id = ?', [
        new Date(before.periodEnd.getTime() + closingMs),
        draft.invoiceId,
      ]);
    }
    const after = await beginPeriod(tx, plans, before);
    await recordSubscriptionEvent(tx, after, 'subscription.renewed');
    if (after.plan.planName === before.plan.planName) return true;
    await recordDowngrade(tx, before, after);
    return true;
  });
}

async function beginPeriod(tx: EntityManager, plans: PlanCatalog, before: Subscription): Promise<Subscription> {
  const { accountId, plannedPlanName, periodEnd } = before;
  const named = (name: string) => plans.all.find(({ planName }) => planName === name);
  // A plan that is no longer sold continues for accounts that have it.
  const plan = (plannedPlanName && named(plannedPlanName)) || named(before.plan.planName) || before.plan;
  const anchor = plan.billingInterval === before.plan.billingInterval ? before.anchor : periodEnd;
  const { startMs, endMs } = periodAt(anchor.getTime(), plan.billingInterval, periodEnd.getTime());
  const terms = JSON.stringify(plan);
  await query(
    tx,
    `update subscriptions set plan = ?::jsonb, opening_plan = ?::jsonb, anchor = ?, period_start = ?, period_end = ?,
            planned_plan_name = null, updated_at = now() where account_id = ?`,
    [terms, terms, anchor, new Date(startMs), new Date(endMs), accountId],
  );
  await query(tx, 'update accounts set plan_name = ?, updated_at = now() where account_id = ?', [
    plan.planName,
    accountId,
  ]);
  return (await findSubscription(tx, accountId))!;
}

async function recordDowngrade(tx: EntityManager, before: Subscription, after: Subscription): Promise<void> {
  await query(
    tx,
    `insert into subscription_changes (change_id, account_id, subscription_id, change_reason, old_plan, new_plan, old_period_start,
       old_period_end, new_period_start, new_period_end, prorated_refund_amount, changed_at)
     values (?, ?, ?, ?, ?::jsonb, ?::jsonb, ?, ?, ?, ?, 0, ?)`,
    [
      ...[newId('planChange'), after.accountId, after.subscriptionId, 'downgraded'],
      ...[JSON.stringify(before.plan), JSON.stringify(after.plan), before.periodStart, before.periodEnd],
      ...[after.periodStart, after.periodEnd, before.periodEnd],
    ],
  );
  await recordSubscriptionEvent(tx, after, 'subscription.downgraded');
  if (after.plan.isFree && !before.plan.isFree) await recordSubscriptionEvent(tx, after, 'subscription.canceled');
}

/** The draft of the subscription's period. The caller has locked the account's row. */
async function bringDraft(tx: EntityManager, subscription: Subscription): Promise<Invoice> {
  const { accountId, periodStart, periodEnd, openingPlan, taxRate } = subscription;
  await query(
    tx,
    `insert into invoices (invoice_id, account_id, kind, period_start, period_end, plan, currency, tax_rate)
     values (?, ?, 'period', ?, ?, ?::jsonb, ?, ?::numeric) on conflict (account_id, period_start) where kind = 'period' do nothing`,
    [newId('invoice'), accountId, periodStart, periodEnd, JSON.stringify(openingPlan), openingPlan.currency, taxRate],
  );
  const draft = (await findPeriodInvoice(tx, accountId, periodStart))!;
  await query(tx, "update invoices set tax_rate = ?::numeric where invoice_id = ? and status = 'draft'", [
    taxRate,
    draft.invoiceId,
  ]);
  return draft;
}

/** Makes or updates the draft of the running period. */
export function refreshDraft(em: EntityManager, accountId: AccountId, at: Date): Promise<Invoice> {
  return em.fork().transactional(async (tx) => {
    await lockRow(tx, 'accounts', accountId);
    const subscription = await findSubscription(tx, accountId);
    if (!subscription) throw new Error(`${accountId} has no subscription`);
    const { invoiceId, status } = await bringDraft(tx, subscription);
    if (status === 'draft') await writeLines(tx, (await findInvoice(tx, invoiceId))!, at);
    return (await findInvoice(tx, invoiceId))!;
  });
}

async function writeLines(tx: EntityManager, draft: Invoice, at: Date): Promise<void> {
  const periodStart = draft.periodStart.toISOString();
  const bill = await billOfPeriod(tx, draft, at);
  const late = await readLateUsage(tx, draft, at);
  const lines = [...bill.lines, ...late.lines];
  const usage = [...bill.usage.map((each) => ({ ...each, periodStart })), ...late.usage];
  await writeDraft(tx, draft.invoiceId, lines, computeTotals(lines, draft.taxRate, draft.currency), usage);
}

/** Issues the invoice of an ended period, once, and pays as much of it as possible from the balance. */
export async function issuePeriodInvoice(em: EntityManager, invoiceId: InvoiceId, at: Date): Promise<void> {
  const found = await findInvoice(em, invoiceId);
  if (!found) throw new Error(`There is no invoice ${invoiceId}`);
  await em.fork().transactional(async (tx) => {
    await lockRow(tx, 'accounts', found.accountId);
    const draft = (await findInvoice(tx, invoiceId, true))!;
    if (draft.status !== 'draft') return;
    await writeLines(tx, draft, at);
    await issue(tx, (await findInvoice(tx, invoiceId))!, at);
  });
}
