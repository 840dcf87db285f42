import { Link } from '@tanstack/react-router';
import { useRead } from '../../api/queries.ts';
import { useIsAdmin } from '../../api/session.ts';
import { Loaded } from '../../components/loaded.tsx';
import { Section } from '../../components/page.tsx';
import { At, Copyable, Facts, Status, Text } from '../../components/values.tsx';
import { formatMoney } from '../../format/numbers.ts';
import type { Invoice } from './invoice-statuses.ts';
import { useHasProcessor } from './payment-processor.tsx';
import { isRefundable, Refund } from './refund.tsx';

/** How an invoice was paid, or why not. */
export function InvoicePayment({ invoice }: { invoice: Invoice }) {
  const { payment_reference: chargeId, failure_reason: failure } = invoice;
  const hasProcessor = useHasProcessor();
  return (
    <Section
      title="Payment"
      actions={
        <Link to="/billing" search={{ part: 'payments' }}>
          All payments
        </Link>
      }
    >
      <Facts
        rows={[
          ['From the balance', formatMoney(invoice.paid_from_balance, invoice.currency)],
          failure !== null && ['Last attempt failed', <Text key="failure">{failure.replaceAll('_', ' ')}</Text>],
          chargeId !== null && !hasProcessor && ['Charge', <Text key="charge">{chargeId}</Text>],
        ]}
      />
      {chargeId === null ? (
        <p className="soft">No card was charged for it.</p>
      ) : (
        hasProcessor && <Charge chargeId={chargeId} />
      )}
      {(invoice.status === 'open' || invoice.status === 'past_due') && (
        <p>
          <Link to="/billing" search={{ part: 'cards' }}>
            Add a card or choose another one
          </Link>
        </p>
      )}
    </Section>
  );
}

/** An invoice has one charge; each attempt confirms it again. */
function Charge({ chargeId }: { chargeId: string }) {
  const isAdmin = useIsAdmin();
  const read = useRead('getPaymentIntent', { path: { id: chargeId } });
  return (
    <Loaded read={read}>
      {(charge) => (
        <>
          <Facts
            rows={[
              ['Charge', <Copyable key="id" text={charge.payment_intent_id} label="Charge id" />],
              ['Status', <Status key="status" status={charge.status} detail={charge.failure_reason} />],
              ['Amount', formatMoney(charge.amount, charge.currency)],
              charge.amount_refunded > 0 && ['Refunded', formatMoney(charge.amount_refunded, charge.currency)],
              ['Card', <Text key="card">{charge.payment_method_id}</Text>],
              ['First attempt', <At key="made" at={charge.created_at} />],
              ['Last change', <At key="changed" at={charge.updated_at} />],
            ]}
          />
          {isAdmin && isRefundable(charge) && (
            <div className="row-actions">
              <Refund charge={charge} />
            </div>
          )}
        </>
      )}
    </Loaded>
  );
}
