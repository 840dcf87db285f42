import { defineEntity, type InferEntity, p } from '@mikro-orm/core';
import type { AccountId, UserId } from '../../domain/ids.ts';
import type { AllocationStatus } from '../../domain/usage/quotas.ts';
import { quotaColumns } from './quota-columns.ts';

/** The quota of one user or of the account, set by a root user. Each has at most one active allocation. */
export const QuotaAllocation = defineEntity({
  name: 'QuotaAllocation',
  tableName: 'quota_allocations',
  properties: {
    allocationId: p.string().primary(),
    accountId: p.string().$type<AccountId>(),
    /** Null: the quota limits the account. */
    userId: p.string().$type<UserId>().nullable(),
    allocatedByUserId: p.string().$type<UserId>(),
    ...quotaColumns,
    status: p.string().$type<AllocationStatus>().default('active'),
    createdAt: p.datetime(3).onCreate(() => new Date()),
    updatedAt: p
      .datetime(3)
      .onCreate(() => new Date())
      .onUpdate(() => new Date()),
  },
});
export type QuotaAllocation = InferEntity<typeof QuotaAllocation>;
