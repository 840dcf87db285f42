import { z } from 'zod';
import type { BudgetRules } from '../../../db/billing/budget-checks.ts';
import { type Budget, findBudget } from '../../../db/billing/budget-rows.ts';
import { createBudget as addBudget, changeBudget, deleteBudget as removeBudget } from '../../../db/billing/budgets.ts';
import { emailKey } from '../../../domain/accounts/email-address.ts';
import {
  type AlertThreshold,
  defaultAlertThresholds,
  limitTypes,
  maxAlertThresholds,
  maxNotificationEmails,
} from '../../../domain/billing/budget.ts';
import { toJsonNumber } from '../../../domain/billing/money.ts';
import { isBilled } from '../../../platform/config/billing.ts';
import { accountRoot, requireCaller } from '../../access.ts';
import type { Api, ApiDependencies } from '../../dependencies.ts';
import { createOnce, idempotencyHeaders } from '../../plugins/idempotency.ts';
import {
  counted,
  optional,
  optionalBody,
  optionalNonZero,
  readEmailField,
  time,
  withDefault,
  withDefaultNonZero,
} from '../../schemas/fields.ts';
import {
  envelope,
  failures,
  messageEnvelope,
  ofIdempotency,
  ofMutations,
  success,
  successMessage,
} from '../../schemas/replies.ts';
import { amount, currency, positiveAmount } from './money.ts';

/** The budget rules of this platform. */
const toBudgetRules = ({ plans, settings }: ApiDependencies): BudgetRules => ({
  currency: plans.currency,
  isBilled: isBilled(settings),
  pausesSandboxes: settings.PLATFORM_USED_UP_BUDGET === 'pause',
});

const percent = () => z.int().min(1).max(100).describe('Of the amount');

export const thresholdSchema = z.object({ percent: percent(), enabled: z.boolean() });

const budgetSchema = z
  .object({
    id: z.int(),
    account_id: z.string(),
    budget_amount: amount().describe('The amount for usage in one period of the subscription'),
    currency: currency(),
    alert_thresholds: z.array(thresholdSchema),
    limit_type: z.enum(limitTypes),
    notification_emails: z.array(z.string()),
    is_active: z.boolean(),
    is_restricted: z.boolean().describe('True: a hard limit is used up, and creates and resumes are refused'),
    created_at: time(),
    updated_at: time(),
  })
  .meta({ id: 'Budget' });

function presentBudget(budget: Budget): z.output<typeof budgetSchema> {
  return {
    id: budget.id,
    account_id: budget.accountId,
    budget_amount: toJsonNumber(budget.amount),
    currency: budget.currency,
    alert_thresholds: presentThresholds(budget.alertThresholds),
    limit_type: budget.limitType,
    notification_emails: [...budget.notificationEmails],
    is_active: budget.isActive,
    is_restricted: budget.isRestricted,
    created_at: budget.createdAt,
    updated_at: budget.updatedAt,
  };
}

export const presentThresholds = (thresholds: readonly AlertThreshold[]) =>
  thresholds.map(({ percent, enabled }) => ({ percent, enabled }));

/** Thresholds for alerts. Typed clients send an empty list for an absent field, so an empty list counts as absent. */
const thresholdsField = z
  .preprocess(
    (given) => (Array.isArray(given) && given.length === 0 ? undefined : given),
    counted(
      maxAlertThresholds,
      'thresholds',
      z.array(z.object({ percent: percent(), enabled: withDefault(z.boolean(), true) })).max(maxAlertThresholds),
    )
      .refine(
        (given) => new Set(given.map((each) => each.percent)).size === given.length,
        'must name each percentage once',
      )
      .nullish(),
  )
  .optional()
  .transform((given) => given ?? undefined);

const emailsField = counted(
  maxNotificationEmails,
  'addresses',
  z.array(z.string().max(1024)).max(maxNotificationEmails),
).describe("Addresses that get mails in addition to the account's own address");

/**
 * The addresses in the form in which they are mailed to, without duplicates.
 * @throws {AppError} `validation_failed`
 */
function readEmails(given: readonly string[]): string[] {
  const read = given.map((text, index) => readEmailField(`notification_emails.${index}`, text));
  return [...new Map(read.map((address) => [emailKey(address), address])).values()];
}

/** `GET /v1/budgets`. */
export function getBudget(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'GET',
    url: '/v1/budgets',
    config: { access: accountRoot('account') },
    schema: {
      operationId: 'getBudget',
      tags: ['Budgets'],
      summary: 'Get the budget of the account',
      description: '`data` is null if the account has no budget.',
      response: { 200: envelope(budgetSchema.nullable(), 'The budget, or null'), ...failures('root_required') },
    },
    handler: async (request) => {
      const budget = await findBudget(deps.orm.em.fork(), requireCaller(request).accountId);
      return success(budget && presentBudget(budget));
    },
  });
}

/** `POST /v1/budgets`: an account has one budget. */
export function createBudget(api: Api, deps: ApiDependencies): void {
  const body = z.object({
    budget_amount: positiveAmount(deps.plans.currency),
    alert_thresholds: thresholdsField.describe('50, 80 and 100 % by default'),
    limit_type: withDefaultNonZero(z.enum(limitTypes), 'soft'),
    notification_emails: withDefault(emailsField, []),
  });
  api.route({
    method: 'POST',
    url: '/v1/budgets',
    config: { access: accountRoot('account'), idempotency: { makes: 'budget' } },
    schema: {
      operationId: 'createBudget',
      tags: ['Budgets'],
      summary: 'Set a budget for the usage of a period',
      description:
        'An account has one budget at a time. A `soft` limit is reported at its thresholds; a `hard` one also refuses ' +
        'creates and resumes when it is used up.',
      headers: idempotencyHeaders,
      body,
      response: {
        201: envelope(budgetSchema, 'The budget'),
        ...failures(ofMutations, ofIdempotency, 'root_required', 'budget_exists'),
      },
    },
    handler: async (request, reply) => {
      const { accountId } = requireCaller(request);
      const { budget_amount: amount, limit_type: limitType, alert_thresholds: thresholds } = request.body;
      const em = deps.orm.em.fork();
      const input = {
        ...{ amount, limitType, alertThresholds: thresholds ?? defaultAlertThresholds },
        notificationEmails: readEmails(request.body.notification_emails),
      };
      const made = await createOnce(request, 'budget', {
        async find(key) {
          const found = await findBudget(em.fork(), accountId);
          return found?.key === key ? found : null;
        },
        create: (key) => addBudget(em, toBudgetRules(deps), accountId, key, input),
      });
      return reply.code(201).send(success(presentBudget(made)));
    },
  });
}

/** `PUT /v1/budgets`: absent fields keep their values. */
export function updateBudget(api: Api, deps: ApiDependencies): void {
  const body = z.object({
    budget_amount: optionalNonZero(positiveAmount(deps.plans.currency)),
    alert_thresholds: thresholdsField,
    limit_type: optionalNonZero(z.enum(limitTypes)),
    notification_emails: optional(emailsField),
    is_active: optional(z.boolean()),
  });
  api.route({
    method: 'PUT',
    url: '/v1/budgets',
    config: { access: accountRoot('account') },
    schema: {
      operationId: 'updateBudget',
      tags: ['Budgets'],
      summary: 'Change the budget of the account',
      description: 'Fields that are left out do not change.',
      body: optionalBody(body),
      response: {
        200: envelope(budgetSchema, 'The budget'),
        ...failures(ofMutations, 'root_required', 'not_found'),
      },
    },
    handler: async (request) => {
      const { accountId } = requireCaller(request);
      const { body: given } = request;
      const changed = await changeBudget(deps.orm.em.fork(), toBudgetRules(deps), accountId, {
        amount: given.budget_amount,
        alertThresholds: given.alert_thresholds,
        limitType: given.limit_type,
        notificationEmails: given.notification_emails && readEmails(given.notification_emails),
        isActive: given.is_active,
      });
      return success(presentBudget(changed));
    },
  });
}

/** `DELETE /v1/budgets`: also ends the restrictions of the budget. */
export function deleteBudget(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'DELETE',
    url: '/v1/budgets',
    config: { access: accountRoot('account') },
    schema: {
      operationId: 'deleteBudget',
      tags: ['Budgets'],
      summary: 'Delete the budget of the account',
      description: 'Requests that the budget refused are allowed again.',
      response: {
        200: messageEnvelope('The budget is deleted'),
        ...failures(ofMutations, 'root_required', 'not_found'),
      },
    },
    handler: async (request) => {
      await removeBudget(deps.orm.em.fork(), requireCaller(request).accountId);
      return successMessage('The budget is deleted');
    },
  });
}
