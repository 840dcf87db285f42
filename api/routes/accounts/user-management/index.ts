import type { Api, ApiDependencies } from '../../../dependencies.ts';
import { updateAccount } from './account-update.ts';
import { changePassword } from './change-password.ts';
import { clearEmailChangeRequests } from './email-change-clear.ts';
import { confirmEmailChange } from './email-change-confirm.ts';
import { requestEmailChange } from './email-change-request.ts';
import { getEmailChangeStatus } from './email-change-status.ts';
import { listPlans } from './plans.ts';
import { createQuotaAllocation } from './quota-allocations-create.ts';
import { deleteQuotaAllocation } from './quota-allocations-delete.ts';
import { listQuotaAllocations } from './quota-allocations-list.ts';
import { revokeQuotaAllocation } from './quota-allocations-revoke.ts';
import { updateQuotaAllocation } from './quota-allocations-update.ts';
import { listQuotaRequestsOfAccount } from './quota-requests-list.ts';
import { reviewQuotaRequest } from './quota-requests-review.ts';
import { requestPasswordReset } from './request-password-reset.ts';
import { resetUserPassword } from './reset-user-password.ts';
import { changeSubscription } from './subscription-change.ts';
import { getSubscription } from './subscription-get.ts';
import { listSubscriptionHistory } from './subscription-history.ts';
import { createUser } from './users-create.ts';
import { deleteUser } from './users-delete.ts';
import { getUser } from './users-get.ts';
import { listAccountUsers } from './users-list.ts';
import { updateUser } from './users-update.ts';

/** Routes of users, their objects, and the management by root users of an account. */
export const userManagementRoutes: readonly ((api: Api, deps: ApiDependencies) => void)[] = [
  listAccountUsers,
  createUser,
  getUser,
  updateUser,
  deleteUser,
  changePassword,
  requestPasswordReset,
  resetUserPassword,
  listPlans,
  getSubscription,
  changeSubscription,
  listSubscriptionHistory,
  updateAccount,
  requestEmailChange,
  getEmailChangeStatus,
  clearEmailChangeRequests,
  confirmEmailChange,
  listQuotaAllocations,
  createQuotaAllocation,
  updateQuotaAllocation,
  revokeQuotaAllocation,
  deleteQuotaAllocation,
  listQuotaRequestsOfAccount,
  reviewQuotaRequest,
];
