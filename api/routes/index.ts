import type { Api, ApiDependencies } from '../dependencies.ts';
import { apiKeyRoutes } from './accounts/api-keys/index.ts';
import { listAuditLog } from './accounts/audit-events/list.ts';
import { authRoutes } from './accounts/auth/index.ts';
import { notificationRoutes } from './accounts/notifications/index.ts';
import { projectRoutes } from './accounts/projects/index.ts';
import { userManagementRoutes } from './accounts/user-management/index.ts';
import { getProfile } from './accounts/users/get-me.ts';
import { updateProfile } from './accounts/users/update-me.ts';
import { budgetRoutes } from './billing/budgets/index.ts';
import { billingRoutes } from './billing/invoices/index.ts';
import { paymentRoutes } from './billing/payment/index.ts';
import { listPlatformRegions } from './hosts/platform-regions/list.ts';
import { sandboxRoutes } from './sandboxes/index.ts';
import { importJobRoutes } from './templates/import-jobs/index.ts';
import { templateRoutes } from './templates/index.ts';
import { usageRoutes } from './usage/index.ts';
import { webhookRoutes } from './webhooks/index.ts';

/** Every route under `/v1`. */
export const routes: readonly ((api: Api, deps: ApiDependencies) => void)[] = [
  ...sandboxRoutes,
  listPlatformRegions,
  ...templateRoutes,
  ...importJobRoutes,
  ...projectRoutes,
  ...apiKeyRoutes,
  ...notificationRoutes,
  ...authRoutes,
  getProfile,
  updateProfile,
  ...userManagementRoutes,
  listAuditLog,
  ...usageRoutes,
  ...webhookRoutes,
  ...billingRoutes,
  ...budgetRoutes,
  ...paymentRoutes,
];
