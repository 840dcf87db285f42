import type { Api, ApiDependencies } from '../../dependencies.ts';
import { getUsageAnalytics } from './analytics.ts';
import { listUsageEvents } from './events.ts';
import { createQuotaRequest } from './quota-requests-create.ts';
import { deleteQuotaRequest } from './quota-requests-delete.ts';
import { listQuotaRequests } from './quota-requests-list.ts';
import { updateQuotaRequest } from './quota-requests-update.ts';
import { getQuota } from './quotas.ts';
import { listUsageSessions } from './sessions.ts';
import { getUsageSummary } from './summary.ts';

/** Routes of users' usage and quotas. */
export const usageRoutes: readonly ((api: Api, deps: ApiDependencies) => void)[] = [
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
