import { Link } from '@tanstack/react-router';
import type { DataOf } from '../../api/client.ts';
import { useIsAdmin } from '../../app/session.tsx';
import { type Column, List } from '../../components/list.tsx';
import { accountFilter } from '../../components/owner-filters.ts';
import { At, Text } from '../../components/values.tsx';
import { formatNumber } from '../../format/numbers.ts';

type Item = DataOf<'listSubscriptionHistory'>['history'][number];

// The history does not tell the currency of its amounts; it is that of the plans.
const columns: readonly Column<Item>[] = [
  { label: 'When', cell: (item) => <At at={item.changed_at} /> },
  { label: 'From', cell: (item) => <Text>{item.old_plan_name}</Text> },
  { label: 'To', cell: (item) => <Text>{item.new_plan_name}</Text> },
  { label: 'Period ends', cell: (item) => <At at={item.new_period_end} /> },
  { label: 'Price before', isNumber: true, cell: (item) => formatNumber(item.old_plan_price) },
  { label: 'Price after', isNumber: true, cell: (item) => formatNumber(item.new_plan_price) },
  { label: 'For unused time', isNumber: true, cell: (item) => formatNumber(item.prorated_refund_amount) },
  {
    label: 'Invoice',
    cell: ({ invoice_id: invoiceId }) =>
      invoiceId === null ? (
        '–'
      ) : (
        <Link to="/billing/invoices/$invoiceId" params={{ invoiceId }}>
          {invoiceId}
        </Link>
      ),
  },
];
const account: Column<Item> = { label: 'Account', cell: (item) => <code>{item.account_id}</code> };

/** The changes of the plan that took effect. */
export function PlanHistory() {
  const isAdmin = useIsAdmin();
  return (
    <List
      operation="listSubscriptionHistory"
      caption="Changes of the plan"
      items={(data) => data.history}
      keyOf={(item) => item.change_id}
      columns={isAdmin ? [...columns, account] : columns}
      filters={isAdmin ? [accountFilter] : []}
      empty="The plan has not changed yet."
    />
  );
}
