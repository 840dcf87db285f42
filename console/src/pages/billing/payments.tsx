import { Link } from '@tanstack/react-router';
import { useIsAdmin } from '../../api/session.ts';
import { type Column, type Filter, List } from '../../components/list.tsx';
import { accountFilter } from '../../components/owner-filters.ts';
import { At, Status, Text } from '../../components/values.tsx';
import { formatMoney } from '../../format/numbers.ts';
import { WithProcessor } from './payment-processor.tsx';
import { type Charge, isRefundable, Refund } from './refund.tsx';

const types: readonly (readonly [type: string, label: string])[] = [
  ['invoice', 'Invoice of a period'],
  ['plan_change', 'Change of the plan'],
];

const columns: readonly Column<Charge>[] = [
  { label: 'Charge', cell: (item) => <Text>{item.payment_intent_id}</Text> },
  { label: 'For', cell: (item) => types.find(([type]) => type === item.intent_type)?.[1] ?? item.intent_type },
  {
    label: 'Invoice',
    cell: ({ metadata }) => {
      const invoiceId = invoiceOf(metadata);
      if (invoiceId === null) return '–';
      return (
        <Link to="/billing/invoices/$invoiceId" params={{ invoiceId }}>
          {invoiceId}
        </Link>
      );
    },
  },
  { label: 'Status', cell: (item) => <Status status={item.status} detail={item.failure_reason} /> },
  { label: 'Card', cell: (item) => <Text>{item.payment_method_id}</Text> },
  { label: 'Made', cell: (item) => <At at={item.created_at} /> },
  { label: 'Amount', isNumber: true, cell: (item) => formatMoney(item.amount, item.currency) },
  {
    label: 'Refunded',
    isNumber: true,
    cell: (item) => (item.amount_refunded === 0 ? '–' : formatMoney(item.amount_refunded, item.currency)),
  },
];
const forAdmins: readonly Column<Charge>[] = [
  { label: 'Account', cell: (item) => <code>{item.account_id}</code> },
  {
    label: 'Actions',
    cell: (item) => isRefundable(item) && <div className="row-actions">{<Refund charge={item} />}</div>,
  },
];

const filters: readonly Filter[] = [{ name: 'type', label: 'For', options: types }];

/** Charges of cards. Operators refund them here. */
export function Payments() {
  const isAdmin = useIsAdmin();
  return (
    <WithProcessor without="There are no payments by card: this platform has no payment processor.">
      <p className="soft">
        Charges of cards, as the payment processor reported them last. An invoice has one charge; an attempt that failed
        is tried again with it.
      </p>
      <List
        operation="listPaymentIntents"
        caption="Charges of cards"
        items={(data) => data.payment_intents}
        keyOf={(item) => item.payment_intent_id}
        columns={isAdmin ? [...columns, ...forAdmins] : columns}
        filters={isAdmin ? [...filters, accountFilter] : filters}
        empty="No card was charged yet."
      />
    </WithProcessor>
  );
}

/** The invoice that a charge belongs to. Its metadata is a text with JSON. */
function invoiceOf(metadata: string): string | null {
  try {
    const { invoice_id: id } = JSON.parse(metadata) as { invoice_id?: unknown };
    return typeof id === 'string' && /^inv-[a-z0-9]+$/.test(id) ? id : null;
  } catch {
    return null;
  }
}
