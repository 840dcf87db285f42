import type { Api, ApiDependencies } from '../../dependencies.ts';
import { listDeadLetters, retryDeadLetter } from './dead-letters.ts';
import { readWorkers } from './workers.ts';

/** The routes of the platform's own work, for operators. */
export const upkeepRoutes: readonly ((api: Api, deps: ApiDependencies) => void)[] = [
  listDeadLetters,
  retryDeadLetter,
  readWorkers,
];
