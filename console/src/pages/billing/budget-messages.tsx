import type { DataOf } from '../../api/client.ts';
import { useIsAdmin } from '../../api/session.ts';
import { type Column, List } from '../../components/list.tsx';
import { accountFilter } from '../../components/owner-filters.ts';
import { At, Text } from '../../components/values.tsx';
import { formatMoney, formatPercent } from '../../format/numbers.ts';

type Item = DataOf<'listBudgetMessages'>['messages'][number];

const columns: readonly Column<Item>[] = [
  { label: 'When', cell: (item) => <At at={item.created_at} /> },
  {
    label: 'Reached',
    cell: (item) => `${item.threshold_percent} %${item.threshold_type === 'exceeded' ? ': all is used' : ''}`,
  },
  {
    label: 'Used then',
    isNumber: true,
    cell: (item) =>
      `${formatMoney(item.usage_amount, item.currency)} of ${formatMoney(item.budget_amount, item.currency)} (${formatPercent(item.percentage_used / 100)})`,
  },
  { label: 'Subject', cell: (item) => <Text>{item.email_subject}</Text> },
  {
    label: 'Mailed to',
    cell: (item) => (item.email_sent ? <Text>{item.email_recipients}</Text> : 'Not mailed'),
  },
];
const account: Column<Item> = { label: 'Account', cell: (item) => <code>{item.account_id}</code> };

/** What was reported about the budget. */
export function BudgetMessages() {
  const isAdmin = useIsAdmin();
  return (
    <List
      operation="listBudgetMessages"
      caption="Messages about the budget"
      items={(data) => data.messages}
      keyOf={(item) => item.id}
      columns={isAdmin ? [...columns, account] : columns}
      filters={isAdmin ? [accountFilter] : []}
      empty="No threshold was reached yet."
    />
  );
}
