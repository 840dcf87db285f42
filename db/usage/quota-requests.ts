import { type EntityManager, LockMode } from '@mikro-orm/postgresql';
import { AppError, notFound } from '../../domain/errors.ts';
import type { AccountId, UserId } from '../../domain/ids.ts';
import type { Quota, QuotaRequestStatus } from '../../domain/usage/quotas.ts';
import { recordAudit } from '../accounts/audit-events.ts';
import { addNotification } from '../accounts/notifications.ts';
import { User } from '../accounts/user.entity.ts';
import { accountTransaction } from '../core/account-transaction.ts';
import { lockRow } from '../core/lock-row.ts';
import { newId } from '../core/new-id.ts';
import { type ListedTable, type Listing, type ListPage, readPage } from '../core/page.ts';
import { type EntityRow, readRow } from '../core/read-row.ts';
import { entitiesWithin, type Scope, type SqlCondition, scopeTransaction, withinScope } from '../core/scope.ts';
import { allocateQuota, auditedQuota } from './quota-allocations.ts';
import { QuotaRequest } from './quota-request.entity.ts';

/** The quota that a user requests, and the reason. */
export type WantedQuota = Quota & { reason: string };

const listed: ListedTable = {
  table: 'quota_requests',
  alias: 'r',
  key: ['request_id'],
};

export async function listQuotaRequests(
  em: EntityManager,
  scope: Scope,
  status: QuotaRequestStatus | undefined,
  listing: Listing,
): Promise<ListPage & { requests: QuotaRequest[] }> {
  const conditions: SqlCondition[] = [withinScope(scope, 'r', 'user_id')];
  if (status) conditions.push({ sql: 'r.status = ?', values: [status] });
  const { rows, ...page } = await readPage<EntityRow<QuotaRequest>>(em, listed, conditions, listing);
  return { requests: rows.map((row) => readRow(em, QuotaRequest, row)), ...page };
}

export function findQuotaRequest(em: EntityManager, scope: Scope, requestId: string): Promise<QuotaRequest | null> {
  return em.findOne(QuotaRequest, { requestId, ...entitiesWithin(scope, 'userId') });
}

/** @throws {AppError} `not_found` */
export async function readQuotaRequest(em: EntityManager, scope: Scope, requestId: string): Promise<QuotaRequest> {
  const request = await findQuotaRequest(em, scope, requestId);
  if (!request) throw notFound('Quota request');
  return request;
}

/**
 * Requests a quota from the account's root users, and notifies them.
 * @throws {AppError} `quota_request_pending` when the user already has a pending request
 */
export async function createQuotaRequest(
  em: EntityManager,
  user: { accountId: AccountId; userId: UserId },
  requestId: string,
  wanted: WantedQuota,
): Promise<void> {
  const { accountId, userId } = user;
  await accountTransaction(em, accountId, async (tx) => {
    await lockRow(tx, 'users', userId);
    if (await tx.count(QuotaRequest, { userId, status: 'pending' })) {
      throw new AppError('quota_request_pending', 'You have a pending quota request; change or withdraw it');
    }
    tx.create(QuotaRequest, { requestId, accountId, userId, ...wanted });
    await recordAudit(tx, { accountId, objectId: requestId, before: null, after: auditedQuota(wanted) });
    const { username } = await tx.findOneOrFail(User, { userId });
    for (const root of await tx.find(User, { accountId, isRootUser: true, status: 'enabled' })) {
      addNotification(tx, {
        accountId,
        userId: root.userId,
        title: 'A user requests a quota',
        message: `${username} requests a quota. Review the request ${requestId}.`,
        type: 'quota_request_created',
        category: 'quota',
        relatedEntityType: 'quota_request',
        relatedEntityId: requestId,
      });
    }
  });
}

/** @throws {AppError} `not_found`, `quota_request_not_pending` */
export async function updateQuotaRequest(
  em: EntityManager,
  scope: Scope,
  requestId: string,
  wanted: WantedQuota,
): Promise<void> {
  await scopeTransaction(em, scope, async (tx) => {
    const request = await lockPending(tx, scope, requestId);
    const before = auditedQuota(request);
    tx.assign(request, wanted);
    await recordAudit(tx, { accountId: request.accountId, objectId: requestId, before, after: auditedQuota(request) });
  });
}

/** @throws {AppError} `not_found`, `quota_request_not_pending` */
export async function withdrawQuotaRequest(em: EntityManager, scope: Scope, requestId: string): Promise<void> {
  await scopeTransaction(em, scope, async (tx) => {
    const request = await lockPending(tx, scope, requestId);
    request.status = 'withdrawn';
    const [before, after] = [{ status: 'pending' }, { status: 'withdrawn' }];
    await recordAudit(tx, { accountId: request.accountId, objectId: requestId, before, after });
  });
}

/**
 * Approves a request, which allocates the quota, or denies it, and notifies the user.
 * @throws {AppError} `not_found`, `quota_request_not_pending`
 */
export async function reviewQuotaRequest(
  em: EntityManager,
  scope: Scope,
  requestId: string,
  review: { by: UserId; approve: boolean; notes: string | null },
): Promise<void> {
  await scopeTransaction(em, scope, async (tx) => {
    const request = await lockPending(tx, scope, requestId);
    request.status = review.approve ? 'approved' : 'denied';
    request.reviewedBy = review.by;
    request.reviewedAt = new Date();
    request.reviewNotes = review.notes;
    const { accountId, userId } = request;
    const [before, after] = [{ status: 'pending' }, { status: request.status }];
    await recordAudit(tx, { accountId, objectId: requestId, before, after });
    addNotification(tx, {
      accountId,
      userId,
      title: `Your quota request is ${request.status}`,
      message: [`Your quota request ${requestId} is ${request.status}.`, review.notes ?? ''].join(' ').trim(),
      type: `quota_request_${request.status}`,
      category: 'quota',
      relatedEntityType: 'quota_request',
      relatedEntityId: requestId,
    });
    await tx.flush();
    if (!review.approve) return;
    const allocation = {
      allocationId: newId('quotaAllocation'),
      allocatedByUserId: review.by,
      quota: toQuota(request),
    };
    await allocateQuota(tx, { accountId, userId }, allocation);
  });
}

function toQuota(request: QuotaRequest): Quota {
  return {
    cpuSecondsMonthly: request.cpuSecondsMonthly ?? null,
    ramGbSeconds: request.ramGbSeconds ?? null,
    sandboxStorageGbSeconds: request.sandboxStorageGbSeconds ?? null,
    trafficGbSeconds: request.trafficGbSeconds ?? null,
    templateStorageGb: request.templateStorageGb ?? null,
    concurrentSandboxes: request.concurrentSandboxes ?? null,
  };
}

async function lockPending(tx: EntityManager, scope: Scope, requestId: string): Promise<QuotaRequest> {
  const request = await tx.findOne(
    QuotaRequest,
    { requestId, ...entitiesWithin(scope, 'userId') },
    { lockMode: LockMode.PESSIMISTIC_WRITE },
  );
  if (!request) throw notFound('Quota request');
  if (request.status !== 'pending') {
    throw new AppError('quota_request_not_pending', `The quota request is ${request.status}`);
  }
  return request;
}
