import { accountRoot } from '../../../access.ts';
import type { Api, ApiDependencies } from '../../../dependencies.ts';
import { envelope, failures, success } from '../../../schemas/replies.ts';
import { invoiceSchema, presentInvoice } from './invoice-schema.ts';
import { invoiceParams, readInvoice } from './read-invoice.ts';

/** `GET /v1/billing/invoices/{invoice_id}`. For an invoice of another account the contract requires 403. */
export function getInvoice(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'GET',
    url: '/v1/billing/invoices/:invoice_id',
    config: { access: accountRoot('account') },
    schema: {
      operationId: 'getInvoice',
      tags: ['Billing'],
      summary: 'Get an invoice',
      description: 'Returns its lines, its tax, and how it was paid: from the balance first, the rest by a charge.',
      params: invoiceParams,
      response: {
        200: envelope(invoiceSchema, 'The invoice'),
        ...failures('root_required', 'invoice_of_another_account', 'not_found'),
      },
    },
    handler: async (request) => {
      return success(presentInvoice(await readInvoice(deps.orm.em, request, request.params.invoice_id)));
    },
  });
}
