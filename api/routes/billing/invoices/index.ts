import type { Api, ApiDependencies } from '../../../dependencies.ts';
import { getBalance } from './balance.ts';
import { listBalanceChanges } from './balance-changes.ts';
import { changeCredits } from './credits-change.ts';
import { getCurrentBilling } from './current.ts';
import { getBillingHistory } from './history.ts';
import { generateInvoice } from './invoice-generate.ts';
import { getInvoice } from './invoices-get.ts';
import { listInvoices } from './invoices-list.ts';
import { getReceipt } from './invoices-receipt.ts';
import { listBillingPeriods } from './periods.ts';

export const billingRoutes: readonly ((api: Api, deps: ApiDependencies) => void)[] = [
  getBalance,
  listBalanceChanges,
  changeCredits,
  listInvoices,
  getInvoice,
  getReceipt,
  getCurrentBilling,
  listBillingPeriods,
  getBillingHistory,
  generateInvoice,
];
