import type { Api, ApiDependencies } from '../../dependencies.ts';
import { changeCredits, getBalance, listBalanceChanges } from './balance.ts';
import { getBudgetStatus, listBudgetMessages } from './budget-reports.ts';
import { createBudget, deleteBudget, getBudget, updateBudget } from './budgets.ts';
import { getBillingHistory, getCurrentBilling, listBillingPeriods } from './costs.ts';
import { generateInvoice, getInvoice, listInvoices } from './invoices.ts';
import {
  checkPaymentMethod,
  deletePaymentMethod,
  getPaymentMethodsStatus,
  linkToAddPaymentMethod,
  listPaymentMethods,
  setDefaultPaymentMethod,
  setUpPaymentMethod,
} from './payment-methods.ts';
import { getPaymentIntent, listPaymentIntents, refundPaymentIntent } from './payments.ts';
import { getProcessorConfig } from './processor.ts';
import { receiveProcessorNotice } from './processor-notices.ts';
import { getReceipt } from './receipts.ts';
import { getLatestReconciliation } from './reconciliations.ts';
import {
  changeSubscription,
  getSubscription,
  getSubscriptionPayment,
  listPlans,
  listSubscriptionHistory,
} from './subscriptions.ts';

/** Routes of subscriptions, invoices, budgets and payments. */
export const billingRoutes: readonly ((api: Api, deps: ApiDependencies) => void)[] = [
  listPlans,
  getSubscription,
  changeSubscription,
  listSubscriptionHistory,
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
  getBudget,
  createBudget,
  updateBudget,
  deleteBudget,
  getBudgetStatus,
  listBudgetMessages,
  getProcessorConfig,
  listPaymentMethods,
  getPaymentMethodsStatus,
  setUpPaymentMethod,
  linkToAddPaymentMethod,
  checkPaymentMethod,
  setDefaultPaymentMethod,
  deletePaymentMethod,
  listPaymentIntents,
  getPaymentIntent,
  getSubscriptionPayment,
  refundPaymentIntent,
  receiveProcessorNotice,
  getLatestReconciliation,
];
