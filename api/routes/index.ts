import type { Api, ApiDependencies } from '../dependencies.ts';
import { accountRoutes } from './accounts/index.ts';
import { billingRoutes } from './billing/index.ts';
import { hostRoutes } from './hosts/index.ts';
import { sandboxRoutes } from './sandboxes/index.ts';
import { templateRoutes } from './templates/index.ts';
import { upkeepRoutes } from './upkeep/index.ts';
import { usageRoutes } from './usage/index.ts';
import { webhookRoutes } from './webhooks/index.ts';

/** Every route under `/v1`. */
export const routes: readonly ((api: Api, deps: ApiDependencies) => void)[] = [
  ...sandboxRoutes,
  ...hostRoutes,
  ...templateRoutes,
  ...accountRoutes,
  ...usageRoutes,
  ...webhookRoutes,
  ...billingRoutes,
  ...upkeepRoutes,
];
