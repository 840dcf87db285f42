import { proxyActivities, workflowInfo } from '@temporalio/workflow';
import type { ReconciliationActivities } from '../../activities/billing/reconciliation.ts';
import { outside, upkeep } from '../activity-profiles.ts';

const rows = proxyActivities<ReconciliationActivities>(upkeep);
const processor = proxyActivities<ReconciliationActivities>(outside.records);

/**
 * Compares the ledger with our invoices and charges, and our charges with the payment processor's. Differences are kept
 * as rows, logged, and counted by a metric. People decide what to do about them. The schedule `reconciliation` starts
 * it each night.
 * @returns the number of differences of each kind
 */
export async function reconciliation(): Promise<Record<string, number>> {
  const id = `rec-${workflowInfo().runId}`;
  const times = await rows.beginReconciliation(id);
  await rows.compareLedger(id);
  if (times) {
    let after: string | null = null;
    do after = await processor.compareProcessor({ id, ...times, after });
    while (after !== null);
  }
  return rows.endReconciliation(id);
}
