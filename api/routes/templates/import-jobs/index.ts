import type { Api, ApiDependencies } from '../../../dependencies.ts';
import { cancelImportJob } from './cancel.ts';
import { getImportJob } from './get.ts';
import { listImportJobs } from './list.ts';

/** The routes of import jobs. */
export const importJobRoutes: readonly ((api: Api, deps: ApiDependencies) => void)[] = [
  listImportJobs,
  getImportJob,
  cancelImportJob,
];
