import type { Api, ApiDependencies } from '../../dependencies.ts';
import { listUsageEvents } from './events.ts';
import {
  createQuotaAllocation,
  deleteQuotaAllocation,
  listQuotaAllocations,
  revokeQuotaAllocation,
  updateQuotaAllocation,
} from './quota-allocations.ts';
import {
  createQuotaRequest,
  deleteQuotaRequest,
  listQuotaRequests,
  listQuotaRequestsOfAccount,
  reviewQuotaRequest,
  updateQuotaRequest,
} from './quota-requests.ts';
import { getQuota } from './quotas.ts';
import { getUsageAnalytics, getUsageSummary } from './reports.ts';
import { listUsageSessions } from './sessions.ts';

/** Routes of users' usage and quotas. */
export const usageRoutes: readonly ((api: Api, deps: ApiDependencies) => void)[] = [
  listQuotaAllocations,
  createQuotaAllocation,
  updateQuotaAllocation,
  revokeQuotaAllocation,
  deleteQuotaAllocation,
  listQuotaRequestsOfAccount,
  reviewQuotaRequest,
  getUsageSummary,
  getUsageAnalytics,
  listUsageSessions,
  listUsageEvents,
  getQuota,
  listQuotaRequests,
  createQuotaRequest,
  updateQuotaRequest,
  deleteQuotaRequest,
];
