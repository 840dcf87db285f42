import type { Api, ApiDependencies } from '../dependencies.ts';
import { apiKeyRoutes } from './api-keys/index.ts';
import { listAuditLog } from './audit-events/list.ts';
import { authRoutes } from './auth/index.ts';
import { billingRoutes } from './billing/index.ts';
import { budgetRoutes } from './budgets/index.ts';
import { importJobRoutes } from './import-jobs/index.ts';
import { notificationRoutes } from './notifications/index.ts';
import { paymentRoutes } from './payment/index.ts';
import { listPlatformRegions } from './platform-regions/list.ts';
import { projectRoutes } from './projects/index.ts';
import { sandboxRoutes } from './sandboxes/index.ts';
import { templateRoutes } from './templates/index.ts';
import { usageRoutes } from './usage/index.ts';
import { userManagementRoutes } from './user-management/index.ts';
import { getProfile } from './users/get-me.ts';
import { updateProfile } from './users/update-me.ts';
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
