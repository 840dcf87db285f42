import type { Api, ApiDependencies } from '../../../dependencies.ts';
import { createApiKey } from './create.ts';
import { deleteApiKey } from './delete.ts';
import { getApiKey } from './get.ts';
import { listApiKeys } from './list.ts';
import { setApiKeyStatus } from './set-status.ts';
import { updateApiKey } from './update.ts';

/** The routes of API keys. */
export const apiKeyRoutes: readonly ((api: Api, deps: ApiDependencies) => void)[] = [
  createApiKey,
  listApiKeys,
  getApiKey,
  updateApiKey,
  setApiKeyStatus,
  deleteApiKey,
];
