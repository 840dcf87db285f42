import { z } from 'zod';
import { listBilledPeriods, projected, readRunningPeriod } from '../../../../db/billing/billing-reports.ts';
import { type InvoiceLine, invoiceStatuses } from '../../../../domain/billing/invoice.ts';
import { sumOf, toJsonNumber } from '../../../../domain/billing/money.ts';
import { notFound } from '../../../../domain/errors.ts';
import { accountRoot, callerOf } from '../../../access.ts';
import type { Api, ApiDependencies } from '../../../dependencies.ts';
import { amount, currency } from '../../../schemas/money.ts';
import { envelope, failures, success } from '../../../schemas/replies.ts';
import { feeFields, feeOf, linesOf, presentFee, usageCostOf } from '../../../schemas/subscription-fee.ts';

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
      const { accountId } = callerOf(request);
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
        ...datesOf({ start, end }),
        ...costsOf(lines, linesOf(changes), code, (used) => projected(used, running, now)),
      };
      const past = (await listBilledPeriods(em, accountId, start)).map(({ invoice, changes: within }) => ({
        period_id: invoice.invoiceId,
        plan: invoice.plan.planName,
        is_current: false,
        type: 'past_period' as const,
        status: invoice.status,
        invoice_generated: invoice.status !== 'draft',
        invoice_id: invoice.invoiceId,
        ...datesOf({ start: invoice.periodStart, end: invoice.periodEnd }),
        ...costsOf(invoice.lines, linesOf(within), invoice.currency, (used) => used),
      }));
      return success({ periods: [current, ...past] });
    },
  });
}

function datesOf({ start, end }: { start: Date; end: Date }) {
  return { period_start: start.toISOString().slice(0, 10), period_end: end.toISOString().slice(0, 10) };
}

function costsOf(
  lines: readonly InvoiceLine[],
  ofChanges: readonly InvoiceLine[],
  code: string,
  project: (used: string) => string,
) {
  const fee = feeOf([...lines, ...ofChanges], code);
  const used = usageCostOf(lines, code);
  return {
    currency: code,
    subscription_fee: presentFee(fee),
    usage_cost: { accumulated: toJsonNumber(used), projected: toJsonNumber(sumOf([project(used)], code)) },
    total: toJsonNumber(sumOf([fee.final, used], code)),
  };
}
