import type { Api, ApiDependencies } from '../../dependencies.ts';
import { listPlans } from './plans.ts';
import { createQuotaAllocation } from './quota-allocations-create.ts';
import { deleteQuotaAllocation } from './quota-allocations-delete.ts';
import { listQuotaAllocations } from './quota-allocations-list.ts';
import { revokeQuotaAllocation } from './quota-allocations-revoke.ts';
import { updateQuotaAllocation } from './quota-allocations-update.ts';
import { listQuotaRequestsOfAccount } from './quota-requests-list.ts';
import { reviewQuotaRequest } from './quota-requests-review.ts';

/** What root users of an account manage. */
export const userManagementRoutes: readonly ((api: Api, deps: ApiDependencies) => void)[] = [
  listPlans,
  listQuotaAllocations,
  createQuotaAllocation,
  updateQuotaAllocation,
  revokeQuotaAllocation,
  deleteQuotaAllocation,
  listQuotaRequestsOfAccount,
  reviewQuotaRequest,
];
