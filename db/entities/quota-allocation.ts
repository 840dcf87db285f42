import { defineEntity, type InferEntity, p } from '@mikro-orm/core';
import type { AccountId, UserId } from '../../domain/ids.ts';
import type { AllocationStatus } from '../../domain/quotas.ts';
import { quotaColumns } from './quota-columns.ts';

/** What an account's root lets one user use; each user has at most one that is active. */
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
