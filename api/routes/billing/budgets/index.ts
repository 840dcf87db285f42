import type { Api, ApiDependencies } from '../../../dependencies.ts';
import { createBudget } from './create.ts';
import { deleteBudget } from './delete.ts';
import { getBudget } from './get.ts';
import { listBudgetMessages } from './messages.ts';
import { getBudgetStatus } from './status.ts';
import { updateBudget } from './update.ts';

export const budgetRoutes: readonly ((api: Api, deps: ApiDependencies) => void)[] = [
  getBudget,
  createBudget,
  updateBudget,
  deleteBudget,
  getBudgetStatus,
  listBudgetMessages,
];
