import type { EntityManager } from '@mikro-orm/postgresql';
import { type InvoiceLine, includedUsageLines, subscriptionLine, usageLines } from '../../domain/billing/invoice.ts';
import { latePeriods, lateUsage, type PricedUsage } from '../../domain/billing/late-usage.ts';
import { isPositive } from '../../domain/billing/money.ts';
import type { Plan } from '../../domain/billing/plans.ts';
import type { AccountId } from '../../domain/ids.ts';
import { type UsageType, usageTypes } from '../../domain/usage/types.ts';
import type { UsageWindow } from '../../domain/usage/window.ts';
import { query } from '../core/query.ts';
import { sumUsage } from '../usage/usage-sums.ts';
import type { BilledUsage, Invoice } from './invoices.ts';

/** The names of usage on invoices. */
const descriptions: { readonly [type in UsageType]?: string } = {
  cpu_seconds: 'Processor cores (core-seconds)',
  ram_gb_seconds: 'Memory (GB-seconds)',
  sandbox_storage_gb_seconds: 'Disks of sandboxes (GB-seconds)',
  traffic_gb: 'Traffic (GB)',
  template_storage_gb_seconds: 'Images of templates (GB-seconds)',
};

interface BilledPeriod {
  accountId: AccountId;
  /** The plan with which the period began. A change to a more expensive plan was charged at the change. */
  plan: Plan;
  periodStart: Date;
  periodEnd: Date;
}

/** The bill of a period up to `now`. */
interface PeriodBill {
  /** The price of the initial plan, the usage, and a credit for the usage while the plan was free. */
  lines: InvoiceLine[];
  /** The usage, without the usage that a free plan includes. */
  usage: PricedUsage[];
}

export async function billOfPeriod(em: EntityManager, period: BilledPeriod, now: Date): Promise<PeriodBill> {
  const { accountId, plan, periodStart, periodEnd } = period;
  const { currency } = plan;
  const usedIn = (window: UsageWindow) => chargedUsageIn(em, accountId, window, now);
  const used = await usedIn({ start: periodStart, end: periodEnd });
  const included: PricedUsage[] = [];
  const free: InvoiceLine[] = [];
  for (const { planName, ...window } of await freeParts(em, period)) {
    const part = await usedIn(window);
    included.push(...part);
    free.push(...includedUsageLines(planName, toInvoiceLines(part, currency), currency));
  }
  const fee = isPositive(plan.priceAmount) ? [subscriptionLine(`${plan.displayName} plan`, plan.priceAmount)] : [];
  return { lines: [...fee, ...toInvoiceLines(used, currency), ...free], usage: lateUsage(used, included) };
}

/**
 * Usage of earlier periods that was recorded after their invoices: its lines and its amounts.
 * @param draft the invoice for these lines
 */
export async function readLateUsage(
  em: EntityManager,
  { accountId, periodStart, currency }: Pick<Invoice, 'accountId' | 'periodStart' | 'currency'>,
  now: Date,
): Promise<{ lines: InvoiceLine[]; usage: BilledUsage[] }> {
  const late: { lines: InvoiceLine[]; usage: BilledUsage[] } = { lines: [], usage: [] };
  const earlier = await query<{ plan: Plan; period_start: string; period_end: string; billed: PricedUsage[] }>(
    em,
    `select v.plan, v.period_start, v.period_end,
            (select coalesce(jsonb_agg(part), '[]') from invoices b, jsonb_array_elements(b.billed_usage) part
              where b.account_id = v.account_id and b.status <> 'draft'
                and (part ->> 'periodStart')::timestamptz = v.period_start) as billed
       from invoices v
      where account_id = ? and kind = 'period' and status <> 'draft' and billed_usage is not null and period_end <= ?
      order by period_end desc limit ?`,
    [accountId, periodStart, latePeriods],
  );
  for (const { plan, billed, ...times } of earlier) {
    const period = {
      accountId,
      plan,
      periodStart: new Date(times.period_start),
      periodEnd: new Date(times.period_end),
    };
    const added = lateUsage((await billOfPeriod(em, period, now)).usage, billed);
    const start = period.periodStart.toISOString();
    late.lines.push(...toInvoiceLines(added, currency, `, used in the period from ${start.slice(0, 10)}`));
    late.usage.push(...added.map((each) => ({ ...each, periodStart: start })));
  }
  return late;
}

function toInvoiceLines(used: readonly PricedUsage[], currency: string, when = ''): InvoiceLine[] {
  const priced = used.map(({ usageType, amount, unitPrice }) => {
    const description = `${descriptions[usageType] ?? usageType}${when}`;
    return { description, amount, perUnit: usageTypes[usageType].perUnit, unitPrice };
  });
  return usageLines(priced, currency);
}

async function chargedUsageIn(
  em: EntityManager,
  accountId: AccountId,
  window: UsageWindow,
  now: Date,
): Promise<PricedUsage[]> {
  const end = new Date(Math.min(window.end.getTime(), now.getTime()));
  if (end <= window.start) return [];
  const sums = await sumUsage(em, { scope: { rows: 'account', accountId } }, { start: window.start, end }, now);
  return sums
    .filter(({ usageType }) => usageTypes[usageType].charged)
    .map(({ usageType, amount, unitPrice }) => ({ usageType, amount, unitPrice }));
}

/** The parts of a period in which the account had a free plan. */
async function freeParts(
  em: EntityManager,
  { accountId, plan, periodStart, periodEnd }: BilledPeriod,
): Promise<(UsageWindow & { planName: string })[]> {
  const changes = await query<{ new_plan: Plan; changed_at: string }>(
    em.isInTransaction() ? em : em.fork(),
    `select new_plan, changed_at from subscription_changes
      where account_id = ? and change_reason = 'upgraded' and changed_at >= ? and changed_at < ? order by changed_at`,
    [accountId, periodStart, periodEnd],
  );
  const parts: (UsageWindow & { planName: string })[] = [];
  let [current, start] = [plan, periodStart];
  for (const next of [...changes, null]) {
    const end = next ? new Date(next.changed_at) : periodEnd;
    if (current.isFree && end > start) parts.push({ planName: current.displayName, start, end });
    if (next) [current, start] = [next.new_plan, end];
  }
  return parts;
}
