import type { ReactNode } from 'react';
import { useRead } from '../../api/queries.ts';
import { useIsAdmin, useIsRoot } from '../../api/session.ts';
import { Empty, Loaded } from '../../components/loaded.tsx';

/** Whether cards can be charged. Null: not known yet, or the platform does not say. */
export function useHasProcessor(): boolean | null {
  const read = useRead('getPaymentProcessor');
  if (read.error?.code === 'payments_not_configured') return false;
  return read.data ? true : null;
}

/** What is special about money on this platform, for all of the pages about it. */
export function PaymentNote() {
  const processor = useRead('getPaymentProcessor');
  const hasProcessor = useHasProcessor();
  const isAdmin = useIsAdmin();
  const isRoot = useIsRoot();
  const current = useRead('getCurrentBilling', {}, { when: isRoot });
  return (
    <>
      {hasProcessor === false && (
        <p className="note">This platform has no payment processor, so it takes no cards and charges none.</p>
      )}
      {processor.data?.test_mode && <p className="note">The payment processor is in test mode: no real money moves.</p>}
      {isAdmin ? (
        <p className="note">Your account belongs to the operators of the platform and is never charged.</p>
      ) : (
        current.data?.is_billed === false && (
          <p className="note">
            The operator has not turned billing on. Usage is metered and shown at its prices, but no invoices are
            issued, every change of the plan is free and takes effect at once, and a budget only alerts.
          </p>
        )
      )}
    </>
  );
}

/** Shows what needs a payment processor. @param props.without said on a platform without one */
export function WithProcessor(props: { without: string; children: ReactNode }) {
  const read = useRead('getPaymentProcessor');
  if (useHasProcessor() === false) return <Empty>{props.without}</Empty>;
  return <Loaded read={read}>{() => props.children}</Loaded>;
}
