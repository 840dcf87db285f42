import { z } from 'zod';
import {
  createQuotaRequest as askForQuota,
  updateQuotaRequest as changeQuotaRequest,
  findQuotaRequest,
  readQuotaRequest,
  listQuotaRequests as readQuotaRequests,
  reviewQuotaRequest as review,
  withdrawQuotaRequest,
} from '../../../db/usage/quota-requests.ts';
import { quotaRequestStatuses } from '../../../domain/usage/quotas.ts';
import { accountRoot, anyUser, requireCaller, requireScope } from '../../access.ts';
import type { Api, ApiDependencies } from '../../dependencies.ts';
import { createOnce, idempotencyHeaders } from '../../plugins/idempotency.ts';
import { optional, optionalQuery } from '../../schemas/fields.ts';
import { accountQuery, paginationSchema, pagingQuery, presentPagination, toListing } from '../../schemas/lists.ts';
import { envelope, failures, ofIdempotency, ofMutations, ofPaging, success } from '../../schemas/replies.ts';
import { presentQuotaRequest, quotaRequestBody, quotaRequestPath, quotaRequestSchema, toQuota } from './quotas.ts';

const query = z.object({ ...pagingQuery, ...accountQuery, status: optionalQuery(z.enum(quotaRequestStatuses)) });

/** `GET /v1/usage/quota-requests`. */
export function listQuotaRequests(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'GET',
    url: '/v1/usage/quota-requests',
    config: { access: anyUser('by_role') },
    schema: {
      operationId: 'listQuotaRequests',
      tags: ['Quotas'],
      summary: 'List your quota requests, newest first',
      description: 'Users see their own requests, root users those of the account.',
      querystring: query,
      response: {
        200: envelope(
          z.object({ requests: z.array(quotaRequestSchema), pagination: paginationSchema }),
          'A page of requests',
        ),
        ...failures(ofPaging, 'admin_required', 'not_found'),
      },
    },
    handler: async (request) => {
      const listing = toListing(deps, request, 50);
      const em = deps.orm.em.fork();
      const { requests, ...page } = await readQuotaRequests(em, requireScope(request), request.query.status, listing);
      return success({ requests: requests.map(presentQuotaRequest), pagination: presentPagination(listing, page) });
    },
  });
}

/** `POST /v1/usage/quota-requests`. The root users of the account are notified. */
export function createQuotaRequest(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'POST',
    url: '/v1/usage/quota-requests',
    config: { access: anyUser('own'), idempotency: { makes: 'quotaRequest' } },
    schema: {
      operationId: 'createQuotaRequest',
      tags: ['Quotas'],
      summary: 'Request a quota',
      description:
        'The root users of the account are notified. Values that are left out are not limited. One request can be ' +
        'pending at a time.',
      headers: idempotencyHeaders,
      body: quotaRequestBody,
      response: {
        201: envelope(quotaRequestSchema, 'The request'),
        ...failures(ofMutations, ofIdempotency, 'quota_request_pending'),
      },
    },
    handler: async (request, reply) => {
      const { reason } = request.body;
      const [caller, scope, em] = [requireCaller(request), requireScope(request), deps.orm.em.fork()];
      const made = await createOnce(request, 'quotaRequest', {
        find: (id) => findQuotaRequest(em.fork(), scope, id),
        create: async (id) => {
          await askForQuota(em, caller, id, { ...toQuota(request.body), reason });
          return readQuotaRequest(em.fork(), scope, id);
        },
      });
      return reply.code(201).send(success(presentQuotaRequest(made)));
    },
  });
}

/** `PUT /v1/usage/quota-requests/{request_id}`: changes a pending request. Absent fields mean no limit. */
export function updateQuotaRequest(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'PUT',
    url: '/v1/usage/quota-requests/:request_id',
    config: { access: anyUser('own') },
    schema: {
      operationId: 'updateQuotaRequest',
      tags: ['Quotas'],
      summary: 'Change a pending quota request',
      description: 'Replaces all values, while it is pending. Values that are left out are not limited.',
      params: quotaRequestPath,
      body: quotaRequestBody,
      response: {
        200: envelope(quotaRequestSchema, 'The request'),
        ...failures(ofMutations, 'not_found', 'quota_request_not_pending'),
      },
    },
    handler: async (request) => {
      const { request_id: id } = request.params;
      const { reason } = request.body;
      const scope = requireScope(request);
      const em = deps.orm.em.fork();
      await changeQuotaRequest(em, scope, id, { ...toQuota(request.body), reason });
      const changed = presentQuotaRequest(await readQuotaRequest(em.fork(), scope, id));
      return success(changed, 'The quota request is changed');
    },
  });
}

/** `DELETE /v1/usage/quota-requests/{request_id}`: withdraws a pending request. */
export function deleteQuotaRequest(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'DELETE',
    url: '/v1/usage/quota-requests/:request_id',
    config: { access: anyUser('own') },
    schema: {
      operationId: 'withdrawQuotaRequest',
      tags: ['Quotas'],
      summary: 'Withdraw a pending quota request',
      description: 'It stays in the list as `withdrawn`.',
      params: quotaRequestPath,
      response: {
        200: envelope(quotaRequestSchema, 'The request'),
        ...failures(ofMutations, 'not_found', 'quota_request_not_pending'),
      },
    },
    handler: async (request) => {
      const { request_id: id } = request.params;
      const scope = requireScope(request);
      const em = deps.orm.em.fork();
      await withdrawQuotaRequest(em, scope, id);
      const withdrawn = presentQuotaRequest(await readQuotaRequest(em.fork(), scope, id));
      return success(withdrawn, 'The quota request is withdrawn');
    },
  });
}

/** `GET /v1/user-management/quota-requests`: the requests of all users of the account. */
export function listQuotaRequestsOfAccount(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'GET',
    url: '/v1/user-management/quota-requests',
    config: { access: accountRoot('account') },
    schema: {
      operationId: 'listQuotaRequestsOfAccount',
      tags: ['Quotas'],
      summary: 'List the quota requests of the account, newest first',
      description: 'Lists requests of all users of the account. `status` filters the list.',
      querystring: query,
      response: {
        200: envelope(
          z.object({ requests: z.array(quotaRequestSchema), pagination: paginationSchema }),
          'A page of requests',
        ),
        ...failures(ofPaging, 'root_required', 'admin_required', 'not_found'),
      },
    },
    handler: async (request) => {
      const listing = toListing(deps, request, 50);
      const em = deps.orm.em.fork();
      const { requests, ...page } = await readQuotaRequests(em, requireScope(request), request.query.status, listing);
      return success({ requests: requests.map(presentQuotaRequest), pagination: presentPagination(listing, page) });
    },
  });
}

const reviewBody = z.object({ action: z.enum(['approve', 'deny']), review_notes: optional(z.string().max(2000)) });

/** `POST /v1/user-management/quota-requests/{request_id}/review`. An approval allocates the requested quota. */
export function reviewQuotaRequest(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'POST',
    url: '/v1/user-management/quota-requests/:request_id/review',
    config: { access: accountRoot('account') },
    schema: {
      operationId: 'reviewQuotaRequest',
      tags: ['Quotas'],
      summary: 'Approve or deny a quota request',
      description: 'An approval allocates the requested values. The user is notified in both cases.',
      params: quotaRequestPath,
      body: reviewBody,
      response: {
        200: envelope(quotaRequestSchema, 'The request'),
        ...failures(ofMutations, 'root_required', 'not_found', 'quota_request_not_pending'),
      },
    },
    handler: async (request) => {
      const { request_id: id } = request.params;
      const { action, review_notes: notes } = request.body;
      const scope = requireScope(request);
      const em = deps.orm.em.fork();
      const by = requireCaller(request).userId;
      await review(em, scope, id, { by, approve: action === 'approve', notes: notes ?? null });
      const reviewed = await readQuotaRequest(em.fork(), scope, id);
      return success(presentQuotaRequest(reviewed), `The quota request is ${reviewed.status}`);
    },
  });
}
