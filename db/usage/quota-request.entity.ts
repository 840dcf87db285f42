import { defineEntity, type InferEntity, p } from '@mikro-orm/core';
import type { AccountId, UserId } from '../../domain/ids.ts';
import type { QuotaRequestStatus } from '../../domain/usage/quotas.ts';
import { quotaColumns } from './quota-columns.ts';

/** A user's request for another quota. A user has at most one pending request. */
export const QuotaRequest = defineEntity({
  name: 'QuotaRequest',
  tableName: 'quota_requests',
  properties: {
    requestId: p.string().primary(),
    accountId: p.string().$type<AccountId>(),
    userId: p.string().$type<UserId>(),
    ...quotaColumns,
    reason: p.string(),
    status: p.string().$type<QuotaRequestStatus>().default('pending'),
    reviewedBy: p.string().nullable(),
    reviewedAt: p.datetime(3).nullable(),
    reviewNotes: p.string().nullable(),
    createdAt: p.datetime(3).onCreate(() => new Date()),
    updatedAt: p
      .datetime(3)
      .onCreate(() => new Date())
      .onUpdate(() => new Date()),
  },
});
export type QuotaRequest = InferEntity<typeof QuotaRequest>;
