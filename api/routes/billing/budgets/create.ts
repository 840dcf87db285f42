import { z } from 'zod';
import { findBudget } from '../../../../db/billing/budget-rows.ts';
import { createBudget as addBudget } from '../../../../db/billing/budgets.ts';
import { defaultAlertThresholds, limitTypes } from '../../../../domain/billing/budget.ts';
import { accountRoot, callerOf } from '../../../access.ts';
import { budgetRulesOf } from '../../../budget-rules.ts';
import type { Api, ApiDependencies } from '../../../dependencies.ts';
import { createOnce, idempotencyHeaders } from '../../../plugins/idempotency.ts';
import { withDefault, withDefaultNonZero } from '../../../schemas/fields.ts';
import { positiveAmount } from '../../../schemas/money.ts';
import { envelope, failures, ofIdempotency, ofMutations, success } from '../../../schemas/replies.ts';
import { budgetSchema, emailsField, presentBudget, readEmails, thresholdsField } from './budget-schema.ts';

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
      const { accountId } = callerOf(request);
      const { budget_amount: amount, limit_type: limitType, alert_thresholds: thresholds } = request.body;
      const em = deps.orm.em.fork();
      const wish = {
        ...{ amount, limitType, alertThresholds: thresholds ?? defaultAlertThresholds },
        notificationEmails: readEmails(request.body.notification_emails),
      };
      const made = await createOnce(request, 'budget', {
        async find(key) {
          const found = await findBudget(em.fork(), accountId);
          return found?.key === key ? found : null;
        },
        create: (key) => addBudget(em, budgetRulesOf(deps), accountId, key, wish),
      });
      return reply.code(201).send(success(presentBudget(made)));
    },
  });
}
