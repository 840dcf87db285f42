import { type EntityManager, LockMode } from '@mikro-orm/postgresql';
import { AppError, notFound } from '../../domain/errors.ts';
import type { UserId } from '../../domain/ids.ts';
import type { Quota, QuotaHolder } from '../../domain/usage/quotas.ts';
import { type AuditedFields, recordAudit } from '../accounts/audit-events.ts';
import { User } from '../accounts/user.entity.ts';
import { lockRow } from '../core/lock-row.ts';
import { type ListedTable, type Listing, type ListPage, readPage } from '../core/page.ts';
import { type EntityRow, readRow } from '../core/read-row.ts';
import { entitiesWithin, type Scope, type SqlCondition, scopeTransaction, withinScope } from '../core/scope.ts';
import { QuotaAllocation } from './quota-allocation.entity.ts';

const listed: ListedTable = {
  table: 'quota_allocations',
  alias: 'a',
  key: ['allocation_id'],
};

/** The allocation of a user or an account that applies now. Null: there is none. */
export function findActiveAllocation(
  em: EntityManager,
  { accountId, userId }: QuotaHolder,
): Promise<QuotaAllocation | null> {
  return em.findOne(QuotaAllocation, { accountId, userId, status: 'active' });
}

/** @param withInactive include inactive ones */
export async function listAllocations(
  em: EntityManager,
  scope: Scope,
  withInactive: boolean,
  listing: Listing,
): Promise<ListPage & { allocations: QuotaAllocation[] }> {
  const conditions: SqlCondition[] = [withinScope(scope, 'a', 'user_id')];
  if (!withInactive) conditions.push({ sql: "a.status = 'active'", values: [] });
  const { rows, ...page } = await readPage<EntityRow<QuotaAllocation>>(em, listed, conditions, listing);
  return { allocations: rows.map((row) => readRow(em, QuotaAllocation, row)), ...page };
}

/**
 * Allocates a quota to a user of the account, or to the account. The earlier allocation of the same user, or of the
 * account, becomes `superseded`.
 * @param tx a transaction
 * @throws {AppError} `not_found` when there is no such user
 */
export async function allocateQuota(
  tx: EntityManager,
  to: QuotaHolder,
  allocation: { allocationId: string; allocatedByUserId: UserId; quota: Quota },
): Promise<void> {
  const { accountId, userId } = to;
  // Allocations of one holder run one after the other, so that each holder has at most one active allocation.
  if (userId === null) await lockRow(tx, 'accounts', accountId);
  else {
    await lockRow(tx, 'users', userId);
    if (!(await tx.count(User, { accountId, userId }))) throw notFound('User');
  }
  const active = { accountId, userId, status: 'active' as const };
  const former = await tx.findOne(QuotaAllocation, active, { disableIdentityMap: true });
  await tx.nativeUpdate(QuotaAllocation, active, { status: 'superseded', updatedAt: new Date() });
  const { quota, ...of } = allocation;
  const made = tx.create(QuotaAllocation, { ...of, ...to, ...quota }, { persist: true });
  await tx.flush();
  await recordAudit(tx, {
    accountId,
    objectId: of.allocationId,
    before: former && auditedFields(former),
    after: auditedFields(made),
  });
}

function auditedFields(allocation: QuotaAllocation): AuditedFields {
  return {
    allocation_id: allocation.allocationId,
    user_id: allocation.userId ?? null,
    ...auditedQuota(allocation),
    status: allocation.status,
  };
}

/** The fields of a quota in the audit log. */
export function auditedQuota(quota: { [name in keyof Quota]?: Quota[name] | undefined }): AuditedFields {
  return {
    cpu_seconds_monthly: quota.cpuSecondsMonthly ?? null,
    ram_gb_seconds: quota.ramGbSeconds ?? null,
    sandbox_storage_gb_seconds: quota.sandboxStorageGbSeconds ?? null,
    traffic_gb_seconds: quota.trafficGbSeconds ?? null,
    template_storage_gb: quota.templateStorageGb ?? null,
    concurrent_sandboxes: quota.concurrentSandboxes ?? null,
  };
}

export function findAllocation(em: EntityManager, scope: Scope, allocationId: string): Promise<QuotaAllocation | null> {
  return em.findOne(QuotaAllocation, { allocationId, ...entitiesWithin(scope, 'userId') });
}

/** @throws {AppError} `not_found` */
export async function readAllocation(em: EntityManager, scope: Scope, allocationId: string): Promise<QuotaAllocation> {
  const allocation = await findAllocation(em, scope, allocationId);
  if (!allocation) throw notFound('Quota allocation');
  return allocation;
}

/**
 * Changes or revokes an active allocation.
 * @throws {AppError} `not_found`, `quota_not_active`
 */
export async function changeAllocation(
  em: EntityManager,
  scope: Scope,
  allocationId: string,
  change: Partial<Quota> & { status?: 'revoked' },
): Promise<void> {
  await scopeTransaction(em, scope, async (tx) => {
    const allocation = await lockAllocation(tx, scope, allocationId);
    if (allocation.status !== 'active') {
      throw new AppError('quota_not_active', `The quota allocation is ${allocation.status}`);
    }
    const { accountId } = allocation;
    const before = auditedFields(allocation);
    tx.assign(allocation, change);
    await recordAudit(tx, { accountId, objectId: allocationId, before, after: auditedFields(allocation) });
  });
}

/** @throws {AppError} `not_found` */
export async function deleteAllocation(em: EntityManager, scope: Scope, allocationId: string): Promise<void> {
  await scopeTransaction(em, scope, async (tx) => {
    const allocation = await lockAllocation(tx, scope, allocationId);
    tx.remove(allocation);
    const { accountId } = allocation;
    await recordAudit(tx, { accountId, objectId: allocationId, before: auditedFields(allocation), after: null });
  });
}

async function lockAllocation(tx: EntityManager, scope: Scope, allocationId: string): Promise<QuotaAllocation> {
  const allocation = await tx.findOne(
    QuotaAllocation,
    { allocationId, ...entitiesWithin(scope, 'userId') },
    { lockMode: LockMode.PESSIMISTIC_WRITE },
  );
  if (!allocation) throw notFound('Quota allocation');
  return allocation;
}
