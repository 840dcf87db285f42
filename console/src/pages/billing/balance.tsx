import type { DataOf } from '../../api/client.ts';
import { useRead } from '../../api/queries.ts';
import { useIsAdmin } from '../../api/session.ts';
import { Figure } from '../../components/figure.tsx';
import { type Column, List } from '../../components/list.tsx';
import { Loaded } from '../../components/loaded.tsx';
import { accountFilter } from '../../components/owner-filters.ts';
import { At, Text } from '../../components/values.tsx';
import { formatMoney } from '../../format/numbers.ts';

type Item = DataOf<'listBalanceChanges'>['changes'][number];

const kinds: Readonly<Record<Item['kind'], string>> = {
  credit_granted: 'Credit granted',
  credit_refunded: 'Credit paid out',
  invoice_issued: 'Invoice issued',
  invoice_voided: 'Invoice voided',
  balance_used: 'Used for an invoice',
  payment_received: 'Payment received',
  payment_refunded: 'Payment refunded',
};

const columns: readonly Column<Item>[] = [
  { label: 'When', cell: (item) => <At at={item.created_at} /> },
  { label: 'What', cell: (item) => kinds[item.kind] },
  { label: 'Description', cell: (item) => <Text>{item.description}</Text> },
  {
    label: 'Amount',
    isNumber: true,
    cell: ({ amount, currency }) => `${amount > 0 ? '+' : ''}${formatMoney(amount, currency)}`,
  },
];
const account: Column<Item> = { label: 'Account', cell: (item) => <code>{item.account_id}</code> };

/** The credit of the account, and what changed it. */
export function Balance() {
  const isAdmin = useIsAdmin();
  const read = useRead('getBalance');
  return (
    <>
      <Loaded read={read}>
        {({ balance, currency }) => (
          <div className="figures">
            <Figure label="Balance of your account" value={formatMoney(balance, currency)} />
          </div>
        )}
      </Loaded>
      <p className="soft">
        The balance pays invoices before a card does. Only the operator of the platform adds to it. Changes are never
        altered: a mistake is corrected by another change.
      </p>
      <List
        operation="listBalanceChanges"
        caption="Changes of the balance"
        items={(data) => data.changes}
        keyOf={(item) => item.transaction_id}
        columns={isAdmin ? [...columns, account] : columns}
        filters={isAdmin ? [accountFilter] : []}
        empty="The balance has never changed."
      />
    </>
  );
}
