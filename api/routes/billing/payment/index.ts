import type { Api, ApiDependencies } from '../../../dependencies.ts';
import { getPaymentIntent } from './intents-get.ts';
import { listPaymentIntents } from './intents-list.ts';
import { refundPaymentIntent } from './intents-refund.ts';
import { checkPaymentMethod } from './methods-check.ts';
import { deletePaymentMethod } from './methods-delete.ts';
import { linkToAddPaymentMethod } from './methods-link.ts';
import { listPaymentMethods } from './methods-list.ts';
import { setDefaultPaymentMethod } from './methods-set-default.ts';
import { setUpPaymentMethod } from './methods-setup.ts';
import { getPaymentMethodsStatus } from './methods-status.ts';
import { getProcessorConfig } from './processor-config.ts';
import { receiveProcessorNotice } from './processor-webhook.ts';
import { getSubscriptionPayment } from './subscription-payment.ts';

export const paymentRoutes: readonly ((api: Api, deps: ApiDependencies) => void)[] = [
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
];
