import { z } from 'zod';
import { listInvoices as readInvoices } from '../../../../db/billing/invoices.ts';
import { accountRoot, scopeOf } from '../../../access.ts';
import type { Api, ApiDependencies } from '../../../dependencies.ts';
import { accountQuery, listingOf, paginationOf, paginationSchema, pagingQueryOf } from '../../../schemas/lists.ts';
import { envelope, failures, ofPaging, success } from '../../../schemas/replies.ts';
import { invoiceSchema, presentInvoice } from './invoice-schema.ts';

/** `GET /v1/billing/invoices`. */
export function listInvoices(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'GET',
    url: '/v1/billing/invoices',
    config: { access: accountRoot('account') },
    schema: {
      operationId: 'listInvoices',
      tags: ['Billing'],
      summary: 'List the invoices of the account, newest first',
      description:
        'Invoices of periods and of plan changes, including drafts. Only `open` and `past_due` invoices are due.',
      querystring: z.object({ ...pagingQueryOf(20), ...accountQuery }),
      response: {
        200: envelope(
          z.object({ invoices: z.array(invoiceSchema), pagination: paginationSchema }),
          'A page of invoices',
        ),
        ...failures(ofPaging, 'root_required', 'admin_required', 'not_found'),
      },
    },
    handler: async (request) => {
      const listing = listingOf(request.query, 20);
      const { invoices, total } = await readInvoices(deps.orm.em.fork(), scopeOf(request), listing);
      return success({ invoices: invoices.map(presentInvoice), pagination: paginationOf(listing, total) });
    },
  });
}
