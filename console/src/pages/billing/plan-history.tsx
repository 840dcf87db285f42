import { Link } from '@tanstack/react-router';
import type { DataOf } from '../../api/client.ts';
import { useIsAdmin } from '../../api/session.ts';
import { type Column, List } from '../../components/list.tsx';
import { accountFilter } from '../../components/owner-filters.ts';
import { At, Text } from '../../components/values.tsx';
import { formatMoney } from '../../format/numbers.ts';

type Item = DataOf<'listSubscriptionHistory'>['history'][number];

const columnsIn = (currency: string): readonly Column<Item>[] => [
  { label: 'When', cell: (item) => <At at={item.changed_at} /> },
  { label: 'From', cell: (item) => <Text>{item.old_plan_name}</Text> },
  { label: 'To', cell: (item) => <Text>{item.new_plan_name}</Text> },
  { label: 'Period ends', cell: (item) => <At at={item.new_period_end} /> },
  { label: 'Price before', isNumber: true, cell: (item) => formatMoney(item.old_plan_price, currency) },
  { label: 'Price after', isNumber: true, cell: (item) => formatMoney(item.new_plan_price, currency) },
  { label: 'For unused time', isNumber: true, cell: (item) => formatMoney(item.prorated_refund_amount, currency) },
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

/** The changes of the plan that took effect. They do not tell the currency of their amounts; it is that of the plans. */
export function PlanHistory({ currency }: { currency: string }) {
  const isAdmin = useIsAdmin();
  const columns = columnsIn(currency);
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
