import { deleteBudget as removeBudget } from '../../../../db/billing/budgets.ts';
import { accountRoot, callerOf } from '../../../access.ts';
import type { Api, ApiDependencies } from '../../../dependencies.ts';
import { failures, messageEnvelope, ofMutations, successMessage } from '../../../schemas/replies.ts';

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
      await removeBudget(deps.orm.em.fork(), callerOf(request).accountId);
      return successMessage('The budget is deleted');
    },
  });
}
