import type { Api, ApiDependencies } from '../../dependencies.ts';
import { drainHosts, listHosts } from './hosts.ts';
import { listPlatformRegions } from './regions.ts';

/** The routes of hosts and their regions. */
export const hostRoutes: readonly ((api: Api, deps: ApiDependencies) => void)[] = [
  listPlatformRegions,
  listHosts,
  drainHosts,
];
