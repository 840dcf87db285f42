import {
  allHandlersFinished,
  condition,
  continueAsNew,
  defineSignal,
  proxyActivities,
  proxyLocalActivities,
  setCurrentDetails,
  setHandler,
  sleep,
  workflowInfo,
} from '@temporalio/workflow';
import type { BillingActivities } from '../../activities/billing/periods.ts';
import type { BillingStep } from '../../domain/billing/billing-step.ts';
import type { AccountId } from '../../domain/ids.ts';
import type { BillingInput } from '../../domain/workflow-registry.ts';
import { database, outside } from '../activity-profiles.ts';

/** The account has a new way to pay: a payment method was added or selected, or credit was granted. */
export const paymentPossibleSignal = defineSignal<[{ accountId: AccountId }]>('paymentPossible');

/** How long a renewal waits for a plan change that is in progress. */
const planChangeWaitMs = 15_000;

const rows = proxyLocalActivities<BillingActivities>(database);
const money = proxyActivities<BillingActivities>(outside.money);

const does: Readonly<Record<BillingStep['kind'], string>> = {
  renew: 'the next period begins',
  issue: 'the invoice of the last period is issued',
  charge: 'an invoice is charged',
};

/**
 * Runs the billing periods of an account while it has a subscription: begins each period, issues the invoice of the
 * previous period, and charges it until it is paid or past due. The rows hold the next step, so a continued run needs
 * no state from the run before it. Workflow id: `acc-…/billing`.
 */
export async function billing(input: BillingInput): Promise<void> {
  const { accountId } = input;
  let mayBePaid = false;
  setHandler(paymentPossibleSignal, () => {
    mayBePaid = true;
  });
  const mayContinueAsNew = () => workflowInfo().continueAsNewSuggested && !mayBePaid && allHandlersFinished();
  for (;;) {
    if (mayBePaid) {
      mayBePaid = false;
      await rows.retryCharges({ accountId, atMs: Date.now() });
    }
    // Continues as new also between two steps, because a customer may send any number of signals in a period.
    if (mayContinueAsNew()) await continueAsNew<typeof billing>(input);
    const next = await rows.findNextBillingStep(accountId);
    if (next === null) return;
    const waitMs = next.dueMs - Date.now();
    if (waitMs > 0) {
      setCurrentDetails(`${does[next.kind]} at ${new Date(next.dueMs).toISOString()}`);
      await condition(() => mayBePaid, waitMs);
    } else {
      await take(accountId, next);
    }
    if (mayContinueAsNew()) await continueAsNew<typeof billing>(input);
  }
}

async function take(accountId: AccountId, step: BillingStep): Promise<void> {
  const atMs = Date.now();
  switch (step.kind) {
    case 'renew':
      if (await rows.renewSubscription({ accountId, atMs })) return;
      await sleep(planChangeWaitMs, { summary: 'a change of the plan is under way' });
      return;
    case 'issue':
      await money.issuePeriodInvoice({ invoiceId: step.invoiceId, atMs });
      return;
    case 'charge':
      await money.chargeInvoice({ invoiceId: step.invoiceId, atMs });
  }
}
