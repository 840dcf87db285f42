import { defineEntity, type InferEntity, p } from '@mikro-orm/core';
import type { AccountId, UserId } from '../../domain/ids.ts';
import type { AllocationStatus } from '../../domain/quotas.ts';
import { quotaColumns } from './quota-columns.ts';

/** The quota of one user, set by the account's root. A user has at most one active allocation. */
export const QuotaAllocation = defineEntity({
  name: 'QuotaAllocation',
  tableName: 'quota_allocations',
  properties: {
    allocationId: p.string().primary(),
    accountId: p.string().$type<AccountId>(),
    userId: p.string().$type<UserId>(),
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
