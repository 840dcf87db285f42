import type { Api, ApiDependencies } from '../../dependencies.ts';
import { getBalance } from './balance.ts';
import { listBalanceChanges } from './balance-changes.ts';
import { changeCredits } from './credits-change.ts';

export const billingRoutes: readonly ((api: Api, deps: ApiDependencies) => void)[] = [
  getBalance,
  listBalanceChanges,
  changeCredits,
];
