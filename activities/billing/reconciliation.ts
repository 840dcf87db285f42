import { Context, log } from '@temporalio/activity';
import {
  beginReconciliation,
  compareCharges,
  compareLedger,
  endReconciliation,
} from '../../db/billing/reconciliations.ts';
import type { Orm } from '../../db/orm.ts';
import type { DifferenceKind } from '../../domain/billing/reconciliation.ts';
import type { PaymentProcessor } from '../../integrations/payments/processor.ts';

/** The number of pages of charges that one activity reads. */
export const pagesPerActivity = 20;

/** Compares the ledger, our invoices and charges, and the processor's charges. It corrects nothing. */
export function createReconciliationActivities({
  orm,
  paymentProcessor,
}: {
  orm: Orm;
  /** Null: not configured. */
  paymentProcessor: PaymentProcessor | null;
}) {
  return {
    /** @returns the range of the charges to compare, in Unix seconds; null when there is no processor */
    async beginReconciliation(id: string): Promise<{ fromSeconds: number; untilSeconds: number } | null> {
      const begun = await beginReconciliation(orm.em, id, paymentProcessor !== null);
      if (!begun.readsProcessor) return null;
      const seconds = (time: Date) => Math.floor(time.getTime() / 1000);
      return { fromSeconds: seconds(begun.chargesFrom), untilSeconds: seconds(begun.chargesUntil) };
    },
    /** @returns the number of differences */
    compareLedger: (id: string): Promise<number> => compareLedger(orm.em, id),
    /** Compares the next charges of the processor. @returns the last compared one; null when there are no more */
    async compareProcessor(wanted: {
      id: string;
      fromSeconds: number;
      untilSeconds: number;
      after: string | null;
    }): Promise<string | null> {
      if (!paymentProcessor) throw new Error('The payment processor is not configured any more');
      const processor = paymentProcessor.until(Context.current().cancellationSignal);
      const { id, fromSeconds, untilSeconds } = wanted;
      let { after } = wanted;
      for (let page = 0; page < pagesPerActivity; page += 1) {
        const { charges, isLast } = await processor.listCharges({ fromSeconds, untilSeconds, after });
        const compared = charges.map((each) => ({ ...each, amountRefunded: each.amountRefunded ?? '0' }));
        await compareCharges(orm.em, id, compared);
        if (isLast) return null;
        after = charges.at(-1)!.paymentIntentId;
        Context.current().heartbeat();
      }
      return after;
    },
    /** @returns the number of differences of each kind */
    async endReconciliation(id: string): Promise<{ [kind in DifferenceKind]?: number }> {
      const differences = await endReconciliation(orm.em, id);
      if (Object.keys(differences).length > 0) {
        log.error('ledger, invoices, charges and payment processor differ; see `npm run admin -- list-differences`', {
          differences,
        });
      }
      return differences;
    },
  };
}

export type ReconciliationActivities = ReturnType<typeof createReconciliationActivities>;
