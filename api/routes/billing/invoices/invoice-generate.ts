import { refreshDraft } from '../../../../db/billing/billing-periods.ts';
import { accountRoot, callerOf } from '../../../access.ts';
import type { Api, ApiDependencies } from '../../../dependencies.ts';
import { envelope, failures, ofMutations, success } from '../../../schemas/replies.ts';
import { invoiceSchema, presentInvoice } from './invoice-schema.ts';

/**
 * `POST /v1/billing/invoice/generate`: the draft of the running period with its current usage. It is issued after the
 * period.
 */
export function generateInvoice(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'POST',
    url: '/v1/billing/invoice/generate',
    config: { access: accountRoot('account') },
    schema: {
      operationId: 'generateInvoice',
      tags: ['Billing'],
      summary: 'Make or update the draft of the current period',
      description:
        'A draft is not due and not charged. It is issued an hour after the end of its period, so that late ' +
        'usage can arrive.',
      response: {
        200: envelope(invoiceSchema, 'The draft'),
        ...failures(ofMutations, 'root_required', 'not_found'),
      },
    },
    handler: async (request) =>
      success(presentInvoice(await refreshDraft(deps.orm.em, callerOf(request).accountId, new Date()))),
  });
}
