import { z } from 'zod';
import { listBilledPeriods, projected, readRunningPeriod } from '../../../db/billing/billing-reports.ts';
import type { Invoice } from '../../../db/billing/invoices.ts';
import { readCosts, readUsageByDay, readUsageTotals } from '../../../db/usage/usage-reports.ts';
import { countSessions } from '../../../db/usage/usage-sessions.ts';
import { type InvoiceLine, invoiceStatuses } from '../../../domain/billing/invoice.ts';
import { type Amount, isPositive, negated, sumAmounts, toJsonNumber } from '../../../domain/billing/money.ts';
import { notFound } from '../../../domain/errors.ts';
import { accountRoot, requireCaller } from '../../access.ts';
import type { Api, ApiDependencies } from '../../dependencies.ts';
import { time } from '../../schemas/fields.ts';
import { envelope, failures, success } from '../../schemas/replies.ts';
import { resolveWindow, windowQuery } from '../../schemas/usage-window.ts';
import { amount, currency } from './money.ts';
import { isAccountBilled } from './subscriptions.ts';

/** The cost of a plan in a period: `standard` less `credit` is `final`. */
const feeFields = {
  standard: amount().describe('The price of the plan with which the period began, and of changes within it'),
  credit: amount().describe('For the unused part of the plan before a change'),
  final: amount(),
};

/** Exact amounts of a plan in a period. */
interface Fee {
  standard: Amount;
  credit: Amount;
  final: Amount;
}

/** Adds up the plan lines in the invoices of a period. Lines that include usage in a free plan belong to the usage. */
function computeFee(lines: readonly InvoiceLine[], currency: string): Fee {
  const amounts = lines
    .filter((line) => line.type === 'subscription' && !isIncludedUsage(line))
    .map((line) => line.amount);
  const sum = (of: readonly Amount[]) => sumAmounts(of, currency);
  const credits = amounts.filter((each) => each.startsWith('-')).map((each) => negated(each, currency));
  return { standard: sum(amounts.filter(isPositive)), credit: sum(credits), final: sum(amounts) };
}

function presentFee({ standard, credit, final }: Fee) {
  return { standard: toJsonNumber(standard), credit: toJsonNumber(credit), final: toJsonNumber(final) };
}

/** The cost of usage, less the usage that a free plan includes. */
function sumUsageCost(lines: readonly InvoiceLine[], currency: string): Amount {
  return sumAmounts(
    lines.filter((line) => line.type === 'usage' || isIncludedUsage(line)).map((line) => line.amount),
    currency,
  );
}

const isIncludedUsage = ({ description }: InvoiceLine) => description.startsWith('Usage included in ');

/** The lines of several invoices. */
const collectLines = (invoices: readonly Invoice[]): InvoiceLine[] => invoices.flatMap(({ lines }) => lines);

const snapshot = z
  .object({
    current_period: z.object({ start: time(), end: time() }),
    currency: currency(),
    is_billed: z
      .boolean()
      .describe("False: the account gets no invoices and pays nothing, because billing is off or it is an operator's"),
    current_cost: amount().describe('Plan and usage until now, before tax'),
    projected_cost: amount().describe('Estimate for the end of the period, if usage continues at the same rate'),
    active_sessions: z.int().min(0),
    completed_sessions: z.int().min(0),
    subscription_fee: z.object({ plan_name: z.string(), ...feeFields }),
    cost_breakdown: z
      .array(z.object({ resource_type: z.string(), cost: amount(), percentage: z.number() }))
      .describe('Usage at its prices; a free plan includes it'),
    daily_trend: z
      .array(z.object({ date: z.string(), cost: amount() }))
      .describe('Usage of each day (UTC) that has any'),
  })
  .meta({ id: 'BillingSnapshot' });

/** `GET /v1/billing/current`: the cost of the running period so far. */
export function getCurrentBilling(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'GET',
    url: '/v1/billing/current',
    config: { access: accountRoot('account') },
    schema: {
      operationId: 'getCurrentBilling',
      tags: ['Billing'],
      summary: 'Get the cost of the current period until now',
      description:
        'The fee of the plan, usage by kind and by day, and an estimate for the whole period if usage ' +
        'continues at the same rate. Before tax; ' +
        'nothing is charged until the period has ended, except a change to a more expensive plan.',
      response: { 200: envelope(snapshot, 'The running period'), ...failures('root_required', 'not_found') },
    },
    handler: async (request) => {
      const { accountId } = requireCaller(request);
      const { em } = deps.orm;
      const now = new Date();
      const running = await readRunningPeriod(em, accountId, now);
      if (!running) throw notFound('Subscription');
      const { subscription, start, end, lines, changes } = running;
      const { currency: code, planName } = subscription.plan;
      const of = { scope: { rows: 'account', accountId } } as const;
      const window = { start, end: now };
      const [billed, sessions, costs, days] = await Promise.all([
        isAccountBilled(deps, accountId),
        countSessions(em, of, window, now),
        readCosts(em, of, window, now),
        readUsageByDay(em, of, window, now),
      ]);
      const fee = computeFee([...lines, ...collectLines(changes)], code);
      const used = sumUsageCost(lines, code);
      return success({
        current_period: { start, end },
        currency: code,
        is_billed: billed,
        current_cost: toJsonNumber(sumAmounts([fee.final, used], code)),
        projected_cost: toJsonNumber(sumAmounts([fee.final, projected(used, running, now)], code)),
        active_sessions: sessions.active,
        completed_sessions: sessions.completed,
        subscription_fee: { plan_name: planName, ...presentFee(fee) },
        cost_breakdown: costs.map(({ usageType, cost, percentage }) => ({
          resource_type: usageType,
          cost,
          percentage,
        })),
        daily_trend: days.map(({ date, totals }) => ({ date, cost: totals.cost })),
      });
    },
  });
}

const day = () => z.string().describe('A day (UTC), such as 2026-05-04');

const periodSchema = z
  .object({
    period_id: z.string().describe('`current`, or the id of the invoice'),
    period_start: day(),
    period_end: day(),
    plan: z.string(),
    is_current: z.boolean(),
    type: z.enum(['current_period', 'past_period']),
    currency: currency(),
    subscription_fee: z.object(feeFields),
    usage_cost: z.object({ accumulated: amount(), projected: amount() }),
    total: amount().describe('Before tax'),
    status: z.enum(['active', ...invoiceStatuses]),
    invoice_generated: z.boolean(),
    invoice_id: z.string().nullable(),
  })
  .meta({ id: 'BillingPeriod' });

/** `GET /v1/billing/periods`: the running period, then the ended ones, newest first. */
export function listBillingPeriods(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'GET',
    url: '/v1/billing/periods',
    config: { access: accountRoot('account') },
    schema: {
      operationId: 'listBillingPeriods',
      tags: ['Billing'],
      summary: 'The current period and past periods, at most a hundred',
      description:
        'The current period comes first, then past periods, newest first. Each has its plan, its costs before ' +
        'tax, and its invoice.',
      response: {
        200: envelope(z.object({ periods: z.array(periodSchema) }), 'The periods'),
        ...failures('root_required', 'not_found'),
      },
    },
    handler: async (request) => {
      const { accountId } = requireCaller(request);
      const { em } = deps.orm;
      const now = new Date();
      const running = await readRunningPeriod(em, accountId, now);
      if (!running) throw notFound('Subscription');
      const { subscription, start, end, lines, changes } = running;
      const { currency: code } = subscription.plan;
      const current = {
        period_id: 'current',
        plan: subscription.plan.planName,
        is_current: true,
        type: 'current_period' as const,
        status: 'active' as const,
        invoice_generated: false,
        invoice_id: null,
        ...presentPeriod({ start, end }),
        ...presentCosts(lines, collectLines(changes), code, (used) => projected(used, running, now)),
      };
      const past = (await listBilledPeriods(em, accountId, start)).map(({ invoice, changes: within }) => ({
        period_id: invoice.invoiceId,
        plan: invoice.plan.planName,
        is_current: false,
        type: 'past_period' as const,
        status: invoice.status,
        invoice_generated: invoice.status !== 'draft',
        invoice_id: invoice.invoiceId,
        ...presentPeriod({ start: invoice.periodStart, end: invoice.periodEnd }),
        ...presentCosts(invoice.lines, collectLines(within), invoice.currency, (used) => used),
      }));
      return success({ periods: [current, ...past] });
    },
  });
}

function presentPeriod({ start, end }: { start: Date; end: Date }) {
  return { period_start: start.toISOString().slice(0, 10), period_end: end.toISOString().slice(0, 10) };
}

function presentCosts(
  lines: readonly InvoiceLine[],
  ofChanges: readonly InvoiceLine[],
  code: string,
  project: (used: string) => string,
) {
  const fee = computeFee([...lines, ...ofChanges], code);
  const used = sumUsageCost(lines, code);
  return {
    currency: code,
    subscription_fee: presentFee(fee),
    usage_cost: { accumulated: toJsonNumber(used), projected: toJsonNumber(sumAmounts([project(used)], code)) },
    total: toJsonNumber(sumAmounts([fee.final, used], code)),
  };
}

const history = z
  .object({
    period: z.object({ start: time(), end: time() }),
    total_cost: amount().describe('Usage at its prices, to a millionth; a free plan includes it'),
    sessions: z.object({
      total: z.int().min(0),
      active: z.int().min(0),
      completed: z.int().min(0),
      failed: z.int().min(0),
    }),
    breakdown: z.array(z.object({ resource_type: z.string(), cost: amount(), percentage: z.number() })),
    daily_costs: z.array(z.object({ date: z.string(), cost: amount() })).describe('Days (UTC) with usage'),
  })
  .meta({ id: 'BillingHistory' });

/** `GET /v1/billing/history`: the cost of usage in a window of time. */
export function getBillingHistory(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'GET',
    url: '/v1/billing/history',
    config: { access: accountRoot('account') },
    schema: {
      operationId: 'getBillingHistory',
      tags: ['Billing'],
      summary: 'Get the cost of usage in a time range',
      description:
        'By kind and by day, at the prices of usage: a free plan includes it, and the fee of a plan is not in it. By default the ' +
        'last 30 days.',
      querystring: z.object(windowQuery),
      response: { 200: envelope(history, 'The costs'), ...failures('root_required', 'invalid_date_range') },
    },
    handler: async (request) => {
      const { accountId } = requireCaller(request);
      const { em } = deps.orm;
      const now = new Date();
      const window = resolveWindow(request.query, now);
      const of = { scope: { rows: 'account', accountId } } as const;
      const [totals, counts, costs, days] = await Promise.all([
        readUsageTotals(em, of, window, now),
        countSessions(em, of, window, now),
        readCosts(em, of, window, now),
        readUsageByDay(em, of, window, now),
      ]);
      const { total, active, completed, failed } = counts;
      return success({
        period: window,
        total_cost: totals.cost,
        sessions: { total, active, completed, failed },
        breakdown: costs.map(({ usageType, cost, percentage }) => ({ resource_type: usageType, cost, percentage })),
        daily_costs: days.map(({ date, totals: used }) => ({ date, cost: used.cost })),
      });
    },
  });
}
