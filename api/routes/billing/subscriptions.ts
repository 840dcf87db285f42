import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';
import { findPeriodInvoiceEndingAt, type Invoice } from '../../../db/billing/invoices.ts';
import {
  changePlan,
  findPlanChange,
  listSubscriptionChanges,
  type PlanChange,
} from '../../../db/billing/plan-changes.ts';
import { currentPeriod, findSubscription, isCharged, type Subscription } from '../../../db/billing/subscriptions.ts';
import { invoiceStatuses } from '../../../domain/billing/invoice.ts';
import { toJsonNumber } from '../../../domain/billing/money.ts';
import type { Plan } from '../../../domain/billing/plans.ts';
import { AppError, notFound } from '../../../domain/errors.ts';
import type { AccountId, PlanChangeId } from '../../../domain/ids.ts';
import { isBilled } from '../../../platform/config/billing.ts';
import { accountRoot, anyUser, requireCaller, requireScope } from '../../access.ts';
import type { Api, ApiDependencies } from '../../dependencies.ts';
import { idempotencyHeaders } from '../../plugins/idempotency.ts';
import { time } from '../../schemas/fields.ts';
import { accountQuery, paginationSchema, pagingQuery, presentPagination, toListing } from '../../schemas/lists.ts';
import { envelope, failures, ofIdempotency, ofMutations, ofPaging, success } from '../../schemas/replies.ts';
import { amount } from './money.ts';
import { requireProcessor } from './processor.ts';

/** Whether an account gets invoices and charges: billing is on, and no operator of the platform belongs to the account. */
export const isAccountBilled = async ({ settings, orm }: ApiDependencies, accountId: AccountId) =>
  isBilled(settings) && isCharged(orm.em, accountId);

/** A plan and its limits. */
const planSchema = z
  .object({
    plan_name: z.string(),
    display_name: z.string(),
    description: z.string(),
    price_amount: z.number(),
    currency: z.string(),
    billing_interval: z.string(),
    is_free: z.boolean(),
    max_concurrent_sandboxes: z.int(),
    max_cpu_cores_per_sandbox: z.int(),
    max_memory_gb_per_sandbox: z.int(),
    max_storage_gb_per_sandbox: z.int(),
    max_sandbox_timeout_seconds: z.int(),
    persistence_days: z.int(),
  })
  .meta({ id: 'Plan' });

function presentPlan(plan: Plan): z.output<typeof planSchema> {
  return {
    plan_name: plan.planName,
    display_name: plan.displayName,
    description: plan.description,
    price_amount: toJsonNumber(plan.priceAmount),
    currency: plan.currency,
    billing_interval: plan.billingInterval,
    is_free: plan.isFree,
    max_concurrent_sandboxes: plan.maxConcurrentSandboxes,
    max_cpu_cores_per_sandbox: plan.maxCpuCoresPerSandbox,
    max_memory_gb_per_sandbox: plan.maxMemoryGbPerSandbox,
    max_storage_gb_per_sandbox: plan.maxStorageGbPerSandbox,
    max_sandbox_timeout_seconds: plan.maxSandboxTimeoutSeconds,
    persistence_days: plan.persistenceDays,
  };
}

/** `GET /v1/user-management/plans`. */
export function listPlans(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'GET',
    url: '/v1/user-management/plans',
    config: { access: anyUser('none') },
    schema: {
      operationId: 'listPlans',
      tags: ['Users'],
      summary: 'List the plans and their limits',
      description: 'The price of a period and the limits of each plan.',
      response: { 200: envelope(z.object({ plans: z.array(planSchema) }), 'The plans'), ...failures() },
    },
    handler: async () => success({ plans: deps.plans.all.map(presentPlan) }),
  });
}

const subscriptionSchema = z
  .object({
    subscription_id: z.string(),
    account_id: z.string(),
    status: z.enum(['active', 'past_due', 'canceled']),
    // The plan with its terms at the time of purchase.
    plan: planSchema,
    current_period_start: time(),
    current_period_end: time(),
    planned_plan_name: z.string().nullable().describe('Takes effect when the period ends; null: the plan continues'),
    tax_rate: z.number(),
    created_at: time(),
    updated_at: time(),
  })
  .meta({ id: 'Subscription' });

function presentSubscription(subscription: Subscription): z.output<typeof subscriptionSchema> {
  return {
    subscription_id: subscription.subscriptionId,
    account_id: subscription.accountId,
    status: subscription.status,
    plan: presentPlan(subscription.plan),
    current_period_start: subscription.periodStart,
    current_period_end: subscription.periodEnd,
    planned_plan_name: subscription.plannedPlanName,
    tax_rate: toJsonNumber(subscription.taxRate),
    created_at: subscription.createdAt,
    updated_at: subscription.updatedAt,
  };
}

/** `GET /v1/user-management/account/subscription`. */
export function getSubscription(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'GET',
    url: '/v1/user-management/account/subscription',
    config: { access: anyUser('account') },
    schema: {
      operationId: 'getSubscription',
      tags: ['Users'],
      summary: 'Get the subscription of the account, with its plan',
      description:
        'The plan has the price and the limits at the time of the purchase. A change of the offered plans ' +
        'applies from the next period on.',
      response: {
        200: envelope(z.object({ subscription: subscriptionSchema }), 'The subscription'),
        ...failures('not_found'),
      },
    },
    handler: async (request) => {
      const subscription = await findSubscription(deps.orm.em, requireCaller(request).accountId);
      if (!subscription) throw notFound('Subscription');
      return success({ subscription: presentSubscription(subscription) });
    },
  });
}

/** How long a request waits for the charge. The charge continues after that. */
const waitMs = 20_000;
const pollMs = 200;

/** `POST /v1/user-management/account/subscription`: changes the plan. */
export function changeSubscription(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'POST',
    url: '/v1/user-management/account/subscription',
    config: { access: accountRoot('account'), idempotency: { makes: 'request' } },
    schema: {
      operationId: 'changeSubscription',
      tags: ['Users'],
      summary: 'Change the plan: to a more expensive one immediately, to a cheaper one when the period ends',
      description:
        'A more expensive plan is charged for the rest of the period, minus the unused part of the current ' +
        'plan: from the balance, then ' +
        'from the default card. If the charge fails, everything stays as it was. The name of the present plan cancels a change ' +
        'that was planned.',
      headers: idempotencyHeaders,
      body: z.object({ plan_name: z.string().min(1).max(100) }),
      response: {
        200: envelope(
          z.object({
            subscription: subscriptionSchema,
            change_status: z
              .enum(['done', 'running'])
              .describe('`running`: the charge has not ended; check again later'),
          }),
          'The subscription',
        ),
        ...failures(
          ofMutations,
          ofIdempotency,
          ...(['root_required', 'not_found', 'unknown_plan', 'payment_required', 'payment_failed'] as const),
          ...(['subscription_past_due', 'plan_change_in_progress'] as const),
        ),
      },
    },
    handler: async (request) => {
      const { accountId } = requireCaller(request);
      const billed = await isAccountBilled(deps, accountId);
      const wanted = { accountId, planName: request.body.plan_name, at: new Date(), billed };
      const changeId = await changePlan(deps.orm.em, deps.plans, wanted);
      const change = changeId === null ? null : await waitForOutcome(deps, changeId);
      if (change?.status === 'failed') {
        const why = change.failureReason ? ` (${change.failureReason})` : '';
        throw new AppError('payment_failed', `The charge failed${why}; the plan did not change`);
      }
      const subscription = await findSubscription(deps.orm.em, accountId);
      if (!subscription) throw notFound('Subscription');
      const status = change?.status === 'running' ? ('running' as const) : ('done' as const);
      return success({ subscription: presentSubscription(subscription), change_status: status });
    },
  });
}

/** The ended change, or its current state when the request has waited long enough. */
async function waitForOutcome({ orm }: ApiDependencies, changeId: PlanChangeId): Promise<PlanChange> {
  for (const endsAt = Date.now() + waitMs; ; ) {
    const change = await findPlanChange(orm.em, changeId);
    if (!change) throw notFound('Change of the plan');
    if (change.status !== 'running' || Date.now() >= endsAt) return change;
    await sleep(pollMs);
  }
}

const changeSchema = z
  .object({
    change_id: z.string(),
    account_id: z.string(),
    subscription_id: z.string(),
    old_plan_name: z.string(),
    new_plan_name: z.string(),
    change_reason: z.enum(['upgraded', 'downgraded']),
    old_period_start: time(),
    old_period_end: time(),
    new_period_start: time(),
    new_period_end: time(),
    prorated_refund_amount: amount().describe('Credited for the unused part of the old plan'),
    old_plan_price: amount(),
    new_plan_price: amount(),
    invoice_id: z.string().nullable(),
    changed_at: time(),
  })
  .meta({ id: 'SubscriptionChange' });

/** `GET /v1/user-management/account/subscription/history`: the changes of the plan that took effect. */
export function listSubscriptionHistory(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'GET',
    url: '/v1/user-management/account/subscription/history',
    config: { access: accountRoot('account') },
    schema: {
      operationId: 'listSubscriptionHistory',
      tags: ['Users'],
      summary: 'List the changes of the plan, newest first',
      description:
        'Lists changes that took effect, with the periods and prices before and after. Planned changes and ' +
        'changes whose charge failed are not listed.',
      querystring: z.object({ ...pagingQuery, ...accountQuery }),
      response: {
        200: envelope(z.object({ history: z.array(changeSchema), pagination: paginationSchema }), 'A page of changes'),
        ...failures(ofPaging, 'root_required', 'admin_required', 'not_found'),
      },
    },
    handler: async (request) => {
      const listing = toListing(deps, request, 50);
      const { changes, ...page } = await listSubscriptionChanges(deps.orm.em.fork(), requireScope(request), listing);
      const history = changes.map((change) => ({
        change_id: change.changeId,
        account_id: change.accountId,
        subscription_id: change.subscriptionId,
        old_plan_name: change.oldPlan.planName,
        new_plan_name: change.newPlan.planName,
        change_reason: change.reason,
        old_period_start: change.oldPeriod.start,
        old_period_end: change.oldPeriod.end,
        new_period_start: change.newPeriod.start,
        new_period_end: change.newPeriod.end,
        prorated_refund_amount: toJsonNumber(change.proratedRefund),
        old_plan_price: toJsonNumber(change.oldPlan.priceAmount),
        new_plan_price: toJsonNumber(change.newPlan.priceAmount),
        invoice_id: change.invoiceId,
        changed_at: change.changedAt,
      }));
      return success({ history, pagination: presentPagination(listing, page) });
    },
  });
}

const payment = z
  .object({
    payment_id: z.string().describe('The invoice'),
    account_id: z.string(),
    payment_type: z.literal('subscription'),
    payment_status: z.enum(invoiceStatuses),
    payment_intent_id: z.string().nullable().describe('Null: paid from the balance, or not charged yet'),
    period_start: time(),
    period_end: time(),
    paid_at: time().nullable(),
    created_at: time(),
    updated_at: time(),
  })
  .meta({ id: 'SubscriptionPayment' });

/**
 * `GET /v1/payment/subscription-payment-by-period`: the payment that was due at the start of the running period. It
 * pays for the period before.
 */
export function getSubscriptionPayment(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'GET',
    url: '/v1/payment/subscription-payment-by-period',
    config: { access: anyUser('account') },
    schema: {
      operationId: 'getSubscriptionPaymentByPeriod',
      tags: ['Payments'],
      summary: 'Get the payment that was due when the current period began',
      description:
        'It pays for the previous period. `data` is null if there is none, as in the first period. An invoice ' +
        'that was paid ' +
        'from the balance has no charge.',
      response: { 200: envelope(payment.nullable(), 'The payment'), ...failures('payments_not_configured') },
    },
    handler: async (request) => {
      requireProcessor(deps);
      const { accountId } = requireCaller(request);
      const subscription = await findSubscription(deps.orm.em, accountId);
      if (!subscription) return success(null);
      const { start } = currentPeriod(subscription, new Date());
      const invoice = await findPeriodInvoiceEndingAt(deps.orm.em, accountId, start);
      return success(invoice && present(invoice));
    },
  });
}

function present(invoice: Invoice): z.output<typeof payment> {
  return {
    payment_id: invoice.invoiceId,
    account_id: invoice.accountId,
    payment_type: 'subscription',
    payment_status: invoice.status,
    payment_intent_id: invoice.paymentIntentId,
    period_start: invoice.periodStart,
    period_end: invoice.periodEnd,
    paid_at: invoice.paidAt,
    created_at: invoice.createdAt,
    updated_at: invoice.updatedAt,
  };
}
