import { Link, useNavigate } from '@tanstack/react-router';
import { useChange } from '../../api/queries.ts';
import { useIsAdmin } from '../../api/session.ts';
import { type Column, List } from '../../components/list.tsx';
import { useNotice } from '../../components/notices.tsx';
import { accountFilter } from '../../components/owner-filters.ts';
import { At, Status } from '../../components/values.tsx';
import { formatMoney } from '../../format/numbers.ts';
import type { Invoice } from './invoice-statuses.ts';

const columns: readonly Column<Invoice>[] = [
  {
    label: 'Invoice',
    cell: ({ invoice_id: id }) => (
      <Link to="/billing/invoices/$invoiceId" params={{ invoiceId: id }}>
        {id}
      </Link>
    ),
  },
  { label: 'Status', cell: (item) => <Status status={item.status} detail={item.failure_reason} /> },
  { label: 'Period from', cell: (item) => <At at={item.billing_period_start} /> },
  { label: 'to', cell: (item) => <At at={item.billing_period_end} /> },
  { label: 'Issued', cell: (item) => <At at={item.issued_at} /> },
  { label: 'Paid', cell: (item) => <At at={item.paid_at} /> },
  { label: 'Total', isNumber: true, cell: (item) => formatMoney(item.total_amount, item.currency) },
];
const account: Column<Invoice> = { label: 'Account', cell: (item) => <code>{item.account_id}</code> };

/** Invoices of periods and of changes of the plan. */
export function Invoices() {
  const isAdmin = useIsAdmin();
  return (
    <>
      <div className="section-header">
        <p className="soft">
          The invoice of a period is issued an hour after its end. A change to a more expensive plan has an invoice of
          its own.
        </p>
        <MakeDraft />
      </div>
      <List
        operation="listInvoices"
        caption="Invoices"
        items={(data) => data.invoices}
        keyOf={(item) => item.invoice_id}
        columns={isAdmin ? [...columns, account] : columns}
        filters={isAdmin ? [accountFilter] : []}
        empty="There are no invoices yet."
      />
    </>
  );
}

/** Makes the invoice of the running period, as far as it is known now, and opens it. */
function MakeDraft() {
  const make = useChange('generateInvoice', ['listInvoices', 'getInvoice', 'listBillingPeriods']);
  const navigate = useNavigate();
  const notify = useNotice();
  const run = () =>
    make.mutate(
      {},
      {
        onSuccess: ({ invoice_id: invoiceId }) => {
          notify('The draft of this period is up to date');
          void navigate({ to: '/billing/invoices/$invoiceId', params: { invoiceId } });
        },
        onError: (error) => notify(error.message),
      },
    );
  return (
    <button type="button" disabled={make.isPending} onClick={run}>
      Make the invoice of this period as a draft
    </button>
  );
}
