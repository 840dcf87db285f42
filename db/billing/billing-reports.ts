import type { EntityManager } from '@mikro-orm/postgresql';
import { type InvoiceLine, projectUsage } from '../../domain/billing/invoice.ts';
import type { AccountId } from '../../domain/ids.ts';
import { billOfPeriod } from './invoice-lines.ts';
import { type Invoice, listInvoices } from './invoices.ts';
import { currentPeriod, findSubscription, type Subscription } from './subscriptions.ts';

/** The cost of an account's running period so far. */
interface RunningPeriod {
  subscription: Subscription;
  start: Date;
  end: Date;
  /** The lines of the plan with which the period began, and of usage. */
  lines: InvoiceLine[];
  /** Changes of the plan within the period. They were paid at once. */
  changes: Invoice[];
}

const everyInvoice = { sortBy: 'created_at', sortOrder: 'desc', limit: 100, offset: 0, after: null } as const;

/** Null: the account has no subscription. */
export async function readRunningPeriod(
  em: EntityManager,
  accountId: AccountId,
  now: Date,
): Promise<RunningPeriod | null> {
  const subscription = await findSubscription(em, accountId);
  if (!subscription) return null;
  const { start, end } = currentPeriod(subscription, now);
  // A period that was not renewed in time continues with the current plan.
  const plan = start > subscription.periodStart ? subscription.plan : subscription.openingPlan;
  const { lines } = await billOfPeriod(em.fork(), { accountId, plan, periodStart: start, periodEnd: end }, now);
  const { invoices: changes } = await listInvoices(em.fork(), { rows: 'account', accountId }, everyInvoice, [
    { sql: "v.kind = 'plan_change' and v.status <> 'void' and v.period_start = ?", values: [start] },
  ]);
  return { subscription, start, end, lines, changes };
}

/** The projected usage of the whole running period. */
export function projected(usedSoFar: string, { start, end }: Pick<RunningPeriod, 'start' | 'end'>, now: Date): string {
  return projectUsage(usedSoFar, { startMs: start.getTime(), endMs: end.getTime() }, now.getTime());
}

/**
 * Invoices of ended periods, newest first, each with the invoices of plan changes within it. At most a hundred periods.
 */
export async function listBilledPeriods(
  em: EntityManager,
  accountId: AccountId,
  before: Date,
): Promise<{ invoice: Invoice; changes: Invoice[] }[]> {
  const scope = { rows: 'account', accountId } as const;
  const [periods, changes] = await Promise.all([
    listInvoices(em.fork(), scope, everyInvoice, [
      { sql: "v.kind = 'period' and v.period_start < ?", values: [before] },
    ]),
    listInvoices(em.fork(), scope, everyInvoice, [
      { sql: "v.kind = 'plan_change' and v.status <> 'void' and v.period_start < ?", values: [before] },
    ]),
  ]);
  return periods.invoices.map((invoice) => ({
    invoice,
    changes: changes.invoices.filter(({ periodStart }) => periodStart.getTime() === invoice.periodStart.getTime()),
  }));
}
