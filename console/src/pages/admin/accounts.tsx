import { Link } from '@tanstack/react-router';
import { type Column, type Filter, List } from '../../components/list.tsx';
import { PageBody } from '../../components/page.tsx';
import { Ago, Status, Text } from '../../components/values.tsx';
import { formatCount } from '../../format/numbers.ts';
import { type Account, AccountActions } from './account-actions.tsx';

const columns: readonly Column<Account>[] = [
  {
    label: 'Account',
    cell: (item) => (
      <div>
        <Text>{item.display_name || item.email}</Text>
        {item.display_name !== '' && (
          <p className="soft">
            <Text>{item.email}</Text>
          </p>
        )}
        <code>{item.account_id}</code>
      </div>
    ),
  },
  { label: 'Status', cell: (item) => <Status status={item.status} /> },
  { label: 'Plan', cell: (item) => <Text>{item.plan_name}</Text> },
  { label: 'Users', isNumber: true, cell: (item) => formatCount(item.user_count) },
  { label: 'Active sandboxes', isNumber: true, cell: (item) => formatCount(item.active_sandbox_count) },
  { label: 'Made', cell: (item) => <Ago at={item.created_at} /> },
  { label: 'See', cell: (item) => <Pages accountId={item.account_id} /> },
  { label: 'Actions', cell: (item) => <AccountActions account={item} /> },
];

const filters: readonly Filter[] = [
  { name: 'search', label: 'Part of the name or the e-mail' },
  {
    name: 'status',
    label: 'Status',
    options: [
      ['active', 'active'],
      ['suspended', 'suspended'],
    ],
  },
];

/** The accounts of the platform, for operators. */
export function Page() {
  return (
    <PageBody title="Accounts">
      <List
        operation="listAccounts"
        caption="Accounts"
        items={(data) => data.accounts}
        keyOf={(item) => item.account_id}
        columns={columns}
        filters={filters}
        empty="There are no accounts."
      />
    </PageBody>
  );
}

/** The pages that show what belongs to another account. Payments can be refunded there. */
function Pages({ accountId }: { accountId: string }) {
  const ofAccount = { account_id: accountId };
  return (
    <div className="row-links">
      <Link to="/sandboxes" search={ofAccount}>
        Sandboxes
      </Link>
      <Link to="/usage" search={ofAccount}>
        Usage
      </Link>
      <Link to="/billing" search={{ part: 'invoices', ...ofAccount }}>
        Invoices
      </Link>
      <Link to="/billing" search={{ part: 'payments', ...ofAccount }}>
        Payments
      </Link>
      <Link to="/billing" search={{ part: 'balance', ...ofAccount }}>
        Balance
      </Link>
      <Link to="/audit" search={ofAccount}>
        Audit log
      </Link>
    </div>
  );
}
