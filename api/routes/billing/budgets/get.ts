import { findBudget } from '../../../../db/billing/budget-rows.ts';
import { accountRoot, callerOf } from '../../../access.ts';
import type { Api, ApiDependencies } from '../../../dependencies.ts';
import { envelope, failures, success } from '../../../schemas/replies.ts';
import { budgetSchema, presentBudget } from './budget-schema.ts';

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
      const budget = await findBudget(deps.orm.em.fork(), callerOf(request).accountId);
      return success(budget && presentBudget(budget));
    },
  });
}
