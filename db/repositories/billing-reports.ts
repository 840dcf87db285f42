import type { EntityManager } from '@mikro-orm/postgresql';
import { type InvoiceLine, projectUsage } from '../../domain/billing/invoice.ts';
import type { AccountId } from '../../domain/ids.ts';
import { billOfPeriod } from './invoice-lines.ts';
import { type Invoice, listInvoices } from './invoices.ts';
import { currentPeriod, findSubscription, type Subscription } from './subscriptions.ts';

/** What the running period of an account has cost so far. */
interface RunningPeriod {
  subscription: Subscription;
  start: Date;
  end: Date;
  /** Of the plan that the period began with, and of usage. */
  lines: InvoiceLine[];
  /** Of changes of the plan within the period, which were paid at once. */
  changes: Invoice[];
}

const everyInvoice = { sortBy: 'created_at', sortOrder: 'desc', limit: 100, offset: 0 } as const;

/** Null: the account has no subscription. */
export async function readRunningPeriod(
  em: EntityManager,
  accountId: AccountId,
  now: Date,
): Promise<RunningPeriod | null> {
  const subscription = await findSubscription(em, accountId);
  if (!subscription) return null;
  const { start, end } = currentPeriod(subscription, now);
  // One that was not renewed in time goes on with the plan that it has.
  const plan = start > subscription.periodStart ? subscription.plan : subscription.openingPlan;
  const { lines } = await billOfPeriod(em.fork(), { accountId, plan, periodStart: start, periodEnd: end }, now);
  const { invoices: changes } = await listInvoices(em.fork(), { rows: 'account', accountId }, everyInvoice, [
    { sql: "v.kind = 'plan_change' and v.status <> 'void' and v.period_start = ?", values: [start] },
  ]);
  return { subscription, start, end, lines, changes };
}

/** The usage of the running period, stretched to all of it. */
export function projected(usedSoFar: string, { start, end }: Pick<RunningPeriod, 'start' | 'end'>, now: Date): string {
  return projectUsage(usedSoFar, { startMs: start.getTime(), endMs: end.getTime() }, now.getTime());
}

/** Invoices of periods that are over, newest first, each with those of changes within it. At most a hundred periods. */
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
