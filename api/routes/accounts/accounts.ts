import { z } from 'zod';
import { type AccountView, findAccountView, listAccounts as readAccounts } from '../../../db/accounts/account-list.ts';
import { setAccountStatus as setStatus } from '../../../db/accounts/account-settings.ts';
import { notFound } from '../../../domain/errors.ts';
import { operator } from '../../access.ts';
import type { Api, ApiDependencies } from '../../dependencies.ts';
import { givenId, optionalQuery, time } from '../../schemas/fields.ts';
import { paginationSchema, pagingQuery, presentPagination, toListing } from '../../schemas/lists.ts';
import { envelope, failures, ofMutations, ofPaging, success } from '../../schemas/replies.ts';

const status = z.enum(['active', 'suspended']);

const accountSchema = z
  .object({
    account_id: z.string(),
    email: z.string(),
    display_name: z.string(),
    status,
    plan_name: z.string(),
    user_count: z.int().min(0),
    active_sandbox_count: z.int().min(0).describe('Sandboxes that count against the plan; paused ones do not'),
    created_at: time(),
  })
  .meta({ id: 'OperatedAccount' });

function present({ account, userCount, activeSandboxCount }: AccountView): z.output<typeof accountSchema> {
  return {
    account_id: account.accountId,
    email: account.email,
    display_name: account.displayName,
    status: account.status,
    plan_name: account.planName,
    user_count: userCount,
    active_sandbox_count: activeSandboxCount,
    created_at: account.createdAt,
  };
}

/** `GET /v1/admin/accounts`. */
export function listAccounts(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'GET',
    url: '/v1/admin/accounts',
    config: { access: operator('everything') },
    schema: {
      operationId: 'listAccounts',
      tags: ['Operation'],
      summary: 'List the accounts of the platform, newest first',
      description: 'Each with its plan, its status, and the numbers of its users and active sandboxes.',
      querystring: z.object({
        ...pagingQuery,
        search: optionalQuery(z.string().max(256)).describe('Part of the e-mail or of the name, in any case'),
        status: optionalQuery(status),
      }),
      response: {
        200: envelope(
          z.object({ accounts: z.array(accountSchema), pagination: paginationSchema }),
          'A page of accounts',
        ),
        ...failures(ofPaging, 'admin_required'),
      },
    },
    handler: async (request) => {
      const listing = toListing(deps, request, 50);
      const { accounts, ...page } = await readAccounts(deps.orm.em, request.query, listing);
      return success({ accounts: accounts.map(present), pagination: presentPagination(listing, page) });
    },
  });
}

/** `PUT /v1/admin/accounts/{account_id}/status`. */
export function setAccountStatus(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'PUT',
    url: '/v1/admin/accounts/:account_id/status',
    config: { access: operator('everything') },
    schema: {
      operationId: 'setAccountStatus',
      tags: ['Operation'],
      summary: 'Suspend an account or reopen it',
      description:
        'Users of a suspended account can read with their API keys, and neither change nor create anything. Their ' +
        'sessions end. Sandboxes continue until their timeout.',
      params: z.object({ account_id: givenId('account') }),
      body: z.object({ status }),
      response: {
        200: envelope(accountSchema, 'The account'),
        ...failures(ofMutations, 'admin_required', 'not_found', 'last_admin'),
      },
    },
    handler: async ({ params: { account_id: accountId }, body }) => {
      const isSet = await setStatus(deps.orm.em, accountId, body.status);
      const account = isSet && (await findAccountView(deps.orm.em, accountId));
      if (!account) throw notFound('Account');
      return success(present(account));
    },
  });
}
