import { z } from 'zod';
import { scopeTransaction } from '../../../db/core/scope.ts';
import {
  allocateQuota,
  changeAllocation,
  deleteAllocation,
  findAllocation,
  listAllocations,
  readAllocation,
} from '../../../db/usage/quota-allocations.ts';
import { accountRoot, requireCaller, requireScope } from '../../access.ts';
import type { Api, ApiDependencies } from '../../dependencies.ts';
import { createOnce, idempotencyHeaders } from '../../plugins/idempotency.ts';
import { givenId, optionalBody, optionalNonZero, queryFlag } from '../../schemas/fields.ts';
import { accountQuery, paginationSchema, pagingQuery, presentPagination, toListing } from '../../schemas/lists.ts';
import { envelope, failures, ofIdempotency, ofMutations, ofPaging, success } from '../../schemas/replies.ts';
import { allocationPath, allocationSchema, presentAllocation, quotaFields, toQuota, toQuotaChange } from './quotas.ts';

const query = z.object({
  ...pagingQuery,
  ...accountQuery,
  include_inactive: queryFlag().describe('Also list superseded and revoked ones'),
});

/** `GET /v1/user-management/quota-allocations`: the allocations of the account and of all its users. */
export function listQuotaAllocations(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'GET',
    url: '/v1/user-management/quota-allocations',
    config: { access: accountRoot('account') },
    schema: {
      operationId: 'listQuotaAllocations',
      tags: ['Quotas'],
      summary: 'List the quota allocations of the account, newest first',
      description:
        'Lists active ones of the account and of all its users; with `include_inactive=true`, also superseded and ' +
        'revoked ones.',
      querystring: query,
      response: {
        200: envelope(
          z.object({ allocations: z.array(allocationSchema), pagination: paginationSchema }),
          'A page of allocations',
        ),
        ...failures(ofPaging, 'root_required', 'admin_required', 'not_found'),
      },
    },
    handler: async (request) => {
      const listing = toListing(deps, request, 50);
      const withInactive = request.query.include_inactive ?? false;
      const em = deps.orm.em.fork();
      const { allocations, ...page } = await listAllocations(em, requireScope(request), withInactive, listing);
      return success({
        allocations: allocations.map(presentAllocation),
        pagination: presentPagination(listing, page),
      });
    },
  });
}

const body = optionalBody(
  z.object({
    user_id: optionalNonZero(givenId('user', z.string().max(64))).describe(
      'A user of the account; without it, the quota limits the account, all its users together',
    ),
    ...quotaFields,
  }),
);

/** `POST /v1/user-management/quota-allocations`. The previous allocation of the user or account becomes `superseded`. */
export function createQuotaAllocation(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'POST',
    url: '/v1/user-management/quota-allocations',
    config: { access: accountRoot('account'), idempotency: { makes: 'quotaAllocation' } },
    schema: {
      operationId: 'createQuotaAllocation',
      tags: ['Quotas'],
      summary: 'Allocate a quota to a user, or to the account',
      description:
        'The previous allocation of the same user, or of the account, becomes `superseded`. Null means no limit; the ' +
        'limits of the plan always apply.',
      headers: idempotencyHeaders,
      body,
      response: {
        201: envelope(allocationSchema, 'The allocation'),
        ...failures(ofMutations, ofIdempotency, 'root_required', 'not_found'),
      },
    },
    handler: async (request, reply) => {
      const { userId: allocatedByUserId, accountId } = requireCaller(request);
      const scope = requireScope(request);
      const em = deps.orm.em.fork();
      const to = { accountId, userId: request.body.user_id ?? null };
      const quota = toQuota(request.body);
      const made = await createOnce(request, 'quotaAllocation', {
        find: (id) => findAllocation(em.fork(), scope, id),
        create: async (allocationId) => {
          const allocation = { allocationId, allocatedByUserId, quota };
          await scopeTransaction(em, scope, (tx) => allocateQuota(tx, to, allocation));
          return readAllocation(em.fork(), scope, allocationId);
        },
      });
      return reply.code(201).send(success(presentAllocation(made)));
    },
  });
}

/** `PUT /v1/user-management/quota-allocations/{allocation_id}`. Absent fields keep their values; null removes a limit. */
export function updateQuotaAllocation(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'PUT',
    url: '/v1/user-management/quota-allocations/:allocation_id',
    config: { access: accountRoot('account') },
    schema: {
      operationId: 'updateQuotaAllocation',
      tags: ['Quotas'],
      summary: 'Change a quota allocation',
      description:
        'Values that are left out, or 0, do not change; null removes a limit, and so does 0 for `concurrent_sandboxes`. Only an active allocation can be changed.',
      params: allocationPath,
      body: optionalBody(z.object(quotaFields)),
      response: {
        200: envelope(allocationSchema, 'The allocation'),
        ...failures(ofMutations, 'root_required', 'not_found', 'quota_not_active'),
      },
    },
    handler: async (request) => {
      const { allocation_id: id } = request.params;
      const scope = requireScope(request);
      const em = deps.orm.em.fork();
      await changeAllocation(em, scope, id, toQuotaChange(request.body));
      return success(presentAllocation(await readAllocation(em.fork(), scope, id)), 'The quota allocation is changed');
    },
  });
}

/** `POST /v1/user-management/quota-allocations/{allocation_id}/revoke`: the allocation no longer limits its user or account. */
export function revokeQuotaAllocation(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'POST',
    url: '/v1/user-management/quota-allocations/:allocation_id/revoke',
    config: { access: accountRoot('account') },
    schema: {
      operationId: 'revokeQuotaAllocation',
      tags: ['Quotas'],
      summary: 'Revoke a quota allocation',
      description: 'The allocation no longer limits its user or account. It stays in the list as `revoked`.',
      params: allocationPath,
      response: {
        200: envelope(allocationSchema, 'The allocation'),
        ...failures(ofMutations, 'root_required', 'not_found', 'quota_not_active'),
      },
    },
    handler: async (request) => {
      const { allocation_id: id } = request.params;
      const scope = requireScope(request);
      const em = deps.orm.em.fork();
      await changeAllocation(em, scope, id, { status: 'revoked' });
      return success(presentAllocation(await readAllocation(em.fork(), scope, id)), 'The quota allocation is revoked');
    },
  });
}

/** `DELETE /v1/user-management/quota-allocations/{allocation_id}`, in any status. */
export function deleteQuotaAllocation(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'DELETE',
    url: '/v1/user-management/quota-allocations/:allocation_id',
    config: { access: accountRoot('account') },
    schema: {
      operationId: 'deleteQuotaAllocation',
      tags: ['Quotas'],
      summary: 'Delete a quota allocation',
      description: 'Works in any status. A deleted allocation no longer limits its user or account.',
      params: allocationPath,
      response: {
        200: envelope(z.object({ allocation_id: z.string(), deleted: z.literal(true) }), 'It is deleted'),
        ...failures(ofMutations, 'root_required', 'not_found'),
      },
    },
    handler: async (request) => {
      const { allocation_id: id } = request.params;
      await deleteAllocation(deps.orm.em.fork(), requireScope(request), id);
      return success({ allocation_id: id, deleted: true as const }, 'The quota allocation is deleted');
    },
  });
}
