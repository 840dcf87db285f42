import { z } from 'zod';
import { listBalanceChanges as readChanges } from '../../../../db/billing/ledger.ts';
import { accountRoot, scopeOf } from '../../../access.ts';
import type { Api, ApiDependencies } from '../../../dependencies.ts';
import { accountQuery, listingOf, paginationOf, paginationSchema, pagingQuery } from '../../../schemas/lists.ts';
import { envelope, failures, ofPaging, success } from '../../../schemas/replies.ts';
import { balanceChangeSchema, presentBalanceChange } from './balance-schema.ts';

/** `GET /v1/billing/balance/changes`: the grants, refunds and uses of the account's credit. */
export function listBalanceChanges(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'GET',
    url: '/v1/billing/balance/changes',
    config: { access: accountRoot('account') },
    schema: {
      operationId: 'listBalanceChanges',
      tags: ['Billing'],
      summary: "List the changes of the account's credit, newest first",
      description:
        'Grants, refunds, and amounts that paid invoices; positive amounts add to the credit. Entries are never ' +
        'changed: a mistake is corrected by another one.',
      querystring: z.object({ ...pagingQuery, ...accountQuery }),
      response: {
        200: envelope(
          z.object({ changes: z.array(balanceChangeSchema), pagination: paginationSchema }),
          'A page of changes',
        ),
        ...failures(ofPaging, 'root_required', 'admin_required', 'not_found'),
      },
    },
    handler: async (request) => {
      const listing = listingOf(request.query, 50);
      const { changes, total } = await readChanges(deps.orm.em.fork(), scopeOf(request), listing);
      return success({ changes: changes.map(presentBalanceChange), pagination: paginationOf(listing, total) });
    },
  });
}
