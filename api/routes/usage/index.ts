import type { Api, ApiDependencies } from '../../dependencies.ts';
import { createQuotaRequest } from './quota-requests-create.ts';
import { deleteQuotaRequest } from './quota-requests-delete.ts';
import { listQuotaRequests } from './quota-requests-list.ts';
import { updateQuotaRequest } from './quota-requests-update.ts';
import { getQuota } from './quotas.ts';

/** What users use and may use. */
export const usageRoutes: readonly ((api: Api, deps: ApiDependencies) => void)[] = [
  getQuota,
  listQuotaRequests,
  createQuotaRequest,
  updateQuotaRequest,
  deleteQuotaRequest,
];
