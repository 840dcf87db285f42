import type { EntityManager } from '@mikro-orm/postgresql';
import { periodAt } from '../../domain/billing/periods.ts';
import type { Plan } from '../../domain/billing/plans.ts';
import type { AccountId, Id } from '../../domain/ids.ts';
import { recordAudit } from '../accounts/audit-events.ts';
import { recordEvent } from '../core/events.ts';
import { newId } from '../core/new-id.ts';
import { requestStart } from '../core/outbox.ts';
import { query } from '../core/query.ts';

export type SubscriptionStatus = 'active' | 'past_due' | 'canceled';

/** An account's plan and the time until which it is paid. Each account has one subscription from its creation on. */
export interface Subscription {
  subscriptionId: Id<'subscription'>;
  accountId: AccountId;
  status: SubscriptionStatus;
  /**
   * The plan with the terms of its purchase. The plans' file may have changed since then; its new terms apply from the
   * next period.
   */
  plan: Plan;
  /** The plan with which the period began. */
  openingPlan: Plan;
  /** The time from which periods are counted. */
  anchor: Date;
  periodStart: Date;
  periodEnd: Date;
  /** Takes effect when the period ends. Null: the current plan continues. */
  plannedPlanName: string | null;
  /** A decimal as a string: `0.19` is 19 %. */
  taxRate: string;
  createdAt: Date;
  updatedAt: Date;
}

/** Null: there is no such account. @param em may be in a transaction */
export async function findSubscription(em: EntityManager, accountId: AccountId): Promise<Subscription | null> {
  const [row] = await query<SubscriptionRow>(
    em.isInTransaction() ? em : em.fork(),
    `select ${columns} from subscriptions where account_id = ?`,
    [accountId],
  );
  return row ? toSubscription(row) : null;
}

/** @throws when the account has none, although each account is made with one */
export async function readSubscription(em: EntityManager, accountId: AccountId): Promise<Subscription> {
  const found = await findSubscription(em, accountId);
  if (!found) throw new Error(`${accountId} has no subscription`);
  return found;
}

/**
 * The period of a time that is not before the stored period. The stored period may have ended a moment ago, or long ago
 * if the control workers were stopped.
 */
export function currentPeriod(
  { anchor, plan, periodStart, periodEnd }: Pick<Subscription, 'anchor' | 'plan' | 'periodStart' | 'periodEnd'>,
  at: Date,
): { start: Date; end: Date } {
  if (at < periodEnd) return { start: periodStart, end: periodEnd };
  const { startMs, endMs } = periodAt(anchor.getTime(), plan.billingInterval, at.getTime());
  return { start: new Date(startMs), end: new Date(endMs) };
}

/**
 * Subscribes a new account to a plan. Its first period begins now. Call this in the transaction that makes the account.
 */
export async function subscribe(tx: EntityManager, accountId: AccountId, plan: Plan, at = new Date()): Promise<void> {
  const subscriptionId = newId('subscription');
  const { startMs, endMs } = periodAt(at.getTime(), plan.billingInterval, at.getTime());
  const terms = JSON.stringify(plan);
  const added = await query<SubscriptionRow>(
    tx,
    `insert into subscriptions (subscription_id, account_id, plan, opening_plan, anchor, period_start, period_end)
     values (?, ?, ?::jsonb, ?::jsonb, ?, ?, ?) on conflict (account_id) do nothing returning ${columns}`,
    [subscriptionId, accountId, terms, terms, at, new Date(startMs), new Date(endMs)],
  );
  if (added.length === 0) return;
  await recordSubscriptionEvent(tx, toSubscription(added[0]!), 'subscription.created');
}

/**
 * Whether an account is charged on a platform with charges. An account with an operator of the platform is not charged,
 * so that no operator is locked out.
 */
export async function isCharged(em: EntityManager, accountId: AccountId): Promise<boolean> {
  const operators = await query(
    em.isInTransaction() ? em : em.fork(),
    "select 1 from users where account_id = ? and role = 'admin' and status = 'enabled' limit 1",
    [accountId],
  );
  return operators.length === 0;
}

/** Starts the periods of an account, in the transaction that makes the account. */
export function startBilling(tx: EntityManager, accountId: AccountId): void {
  requestStart(tx, 'billing', accountId, { accountId });
}

/** The same for each account with a subscription. It has no effect on accounts whose periods have already started. */
export async function startBillingOfAll(em: EntityManager): Promise<void> {
  await query(
    em.fork(),
    `insert into outbox (workflow_type, workflow_id, input)
     select 'billing', account_id || '/billing', jsonb_build_object('accountId', account_id) from subscriptions
      where status <> 'canceled'
        and not exists (select from outbox where workflow_type = 'billing' and workflow_id = account_id || '/billing')`,
  );
}

/** Makes past due accounts active on a platform that no longer charges. */
export async function forgiveAll(em: EntityManager): Promise<void> {
  await query(em.fork(), "update subscriptions set status = 'active', updated_at = now() where status = 'past_due'");
}

/** @param rate a decimal as a string, from 0 to 1 @returns false when the account has no subscription */
export async function setTaxRate(tx: EntityManager, accountId: AccountId, rate: string): Promise<boolean> {
  const before = await findSubscription(tx, accountId);
  if (!before) return false;
  await query(tx, 'update subscriptions set tax_rate = ?::numeric, updated_at = now() where account_id = ?', [
    rate,
    accountId,
  ]);
  const { subscriptionId: objectId, taxRate } = before;
  await recordAudit(tx, { accountId, objectId, before: { tax_rate: taxRate }, after: { tax_rate: rate } });
  return true;
}

type SubscriptionEvent = 'created' | 'upgraded' | 'downgraded' | 'renewed' | 'past_due' | 'canceled';

export function recordSubscriptionEvent(
  tx: EntityManager,
  { subscriptionId, accountId, status, plan, periodStart, periodEnd }: Subscription,
  type: `subscription.${SubscriptionEvent}`,
): Promise<unknown> {
  return recordEvent(tx, { objectId: subscriptionId, accountId, userId: null }, type, {
    ...{ account_id: accountId, subscription_id: subscriptionId, plan_name: plan.planName, status },
    ...{ period_start: periodStart.toISOString(), period_end: periodEnd.toISOString() },
  });
}

const columns = `subscription_id, account_id, status, plan, opening_plan, anchor, period_start, period_end, planned_plan_name,
  trim_scale(tax_rate)::text as tax_rate, created_at, updated_at`;

interface SubscriptionRow {
  subscription_id: Id<'subscription'>;
  account_id: AccountId;
  status: SubscriptionStatus;
  plan: Plan;
  opening_plan: Plan;
  anchor: string;
  period_start: string;
  period_end: string;
  planned_plan_name: string | null;
  tax_rate: string;
  created_at: string;
  updated_at: string;
}

function toSubscription(row: SubscriptionRow): Subscription {
  return {
    subscriptionId: row.subscription_id,
    accountId: row.account_id,
    status: row.status,
    plan: row.plan,
    openingPlan: row.opening_plan,
    anchor: new Date(row.anchor),
    periodStart: new Date(row.period_start),
    periodEnd: new Date(row.period_end),
    plannedPlanName: row.planned_plan_name,
    taxRate: row.tax_rate,
    createdAt: new Date(row.created_at),
    updatedAt: new Date(row.updated_at),
  };
}
