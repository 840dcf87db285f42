import { z } from 'zod';
import { changeBudget } from '../../../../db/billing/budgets.ts';
import { limitTypes } from '../../../../domain/billing/budget.ts';
import { accountRoot, callerOf } from '../../../access.ts';
import { budgetRulesOf } from '../../../budget-rules.ts';
import type { Api, ApiDependencies } from '../../../dependencies.ts';
import { optional, optionalBody, optionalNonZero } from '../../../schemas/fields.ts';
import { positiveAmount } from '../../../schemas/money.ts';
import { envelope, failures, ofMutations, success } from '../../../schemas/replies.ts';
import { budgetSchema, emailsField, presentBudget, readEmails, thresholdsField } from './budget-schema.ts';

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
      const { accountId } = callerOf(request);
      const { body: given } = request;
      const changed = await changeBudget(deps.orm.em.fork(), budgetRulesOf(deps), accountId, {
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
