import { findNextBillingStep, issuePeriodInvoice, renew } from '../../db/billing/billing-periods.ts';
import { retryCharges } from '../../db/billing/invoice-payments.ts';
import { endPlanChange, findInvoiceOfChange } from '../../db/billing/plan-changes.ts';
import type { PlanCatalog } from '../../db/billing/plans.ts';
import { isCharged } from '../../db/billing/subscriptions.ts';
import type { Orm } from '../../db/orm.ts';
import type { BillingStep } from '../../domain/billing/billing-step.ts';
import type { ChargeOutcome } from '../../domain/billing/payments.ts';
import type { AccountId, InvoiceId, PlanChangeId } from '../../domain/ids.ts';
import type { PaymentProcessor } from '../../integrations/payments/processor.ts';
import { withHeartbeats } from '../heartbeats.ts';
import { cancelInvoiceCharge, chargeInvoice } from './invoice-charge.ts';

/**
 * Activities for periods, invoices and charges. All times come from the workflow, so the result of an attempt does not
 * depend on when it runs. All of these activities may be repeated.
 */
export function createBillingActivities(deps: {
  orm: Orm;
  plans: PlanCatalog;
  processor: PaymentProcessor | null;
  /** False: periods pass, but no account gets invoices or charges. */
  billed: boolean;
}) {
  const { orm, plans, billed } = deps;
  const until = (cancelled: AbortSignal) => ({ orm, processor: deps.processor?.until(cancelled) ?? null });
  const isBilled = async (accountId: AccountId) => billed && (await isCharged(orm.em, accountId));
  return {
    /** Null: the account no longer has a subscription. */
    findNextBillingStep: async (accountId: AccountId): Promise<BillingStep | null> =>
      findNextBillingStep(orm.em, accountId, await isBilled(accountId)),

    /** @returns false when a change of the plan is in progress */
    renewSubscription: async ({ accountId, atMs }: { accountId: AccountId; atMs: number }): Promise<boolean> =>
      renew(orm.em, plans, { accountId, at: new Date(atMs), billed: await isBilled(accountId) }),

    issuePeriodInvoice: ({ invoiceId, atMs }: { invoiceId: InvoiceId; atMs: number }): Promise<void> =>
      withHeartbeats(() => issuePeriodInvoice(orm.em, invoiceId, new Date(atMs))),

    chargeInvoice: ({ invoiceId, atMs }: { invoiceId: InvoiceId; atMs: number }): Promise<ChargeOutcome> =>
      withHeartbeats((cancelled) => chargeInvoice(until(cancelled), invoiceId, new Date(atMs))),

    retryCharges: ({ accountId, atMs }: { accountId: AccountId; atMs: number }): Promise<void> =>
      retryCharges(orm.em, accountId, new Date(atMs)),

    /** Charges once for a plan. A failed charge is cancelled, so that it cannot be paid later. */
    chargePlanChange: ({ changeId, atMs }: { changeId: PlanChangeId; atMs: number }): Promise<ChargeOutcome> =>
      withHeartbeats(async (cancelled) => {
        const { invoiceId, chargeAttempts } = await findInvoiceOfChange(orm.em, changeId);
        if (chargeAttempts === 0) {
          const outcome = await chargeInvoice(until(cancelled), invoiceId, new Date(atMs));
          if (outcome !== 'failed') return outcome;
        }
        return cancelInvoiceCharge(until(cancelled), invoiceId);
      }),

    endPlanChange: ({ changeId, atMs }: { changeId: PlanChangeId; atMs: number }): Promise<void> =>
      endPlanChange(orm.em, changeId, new Date(atMs)),
  };
}

export type BillingActivities = ReturnType<typeof createBillingActivities>;
