import type { DataOf } from '../../api/client.ts';
import { useIsAdmin } from '../../api/session.ts';
import { type Column, type Filter, List } from '../../components/list.tsx';
import { accountFilter } from '../../components/owner-filters.ts';
import { Section } from '../../components/page.tsx';
import { AllocationActions, NewAllocation } from '../../components/quota-allocation.tsx';
import { QuotaLimits } from '../../components/quota-amounts.tsx';
import { UserName } from '../../components/user-name.tsx';
import { Ago, Status } from '../../components/values.tsx';

type Item = DataOf<'listQuotaAllocations'>['allocations'][number];

const columns: readonly Column<Item>[] = [
  { label: 'Of', cell: (item) => (item.user_id === null ? 'The account' : <UserName userId={item.user_id} />) },
  {
    label: 'Limits',
    cell: (item) => (
      <div>
        <QuotaLimits quota={item} />
      </div>
    ),
  },
  { label: 'Status', cell: (item) => <Status status={item.status} /> },
  { label: 'Set by', cell: (item) => <UserName userId={item.allocated_by_user_id} /> },
  { label: 'Set', cell: (item) => <Ago at={item.created_at} /> },
  { label: 'Changed', cell: (item) => <Ago at={item.updated_at} /> },
  {
    label: 'Actions',
    cell: (item) => <AllocationActions allocation={item} object={`the quota of ${item.user_id ?? 'the account'}`} />,
  },
];

const filters: readonly Filter[] = [
  {
    name: 'include_inactive',
    label: 'Which',
    without: 'Those that apply',
    options: [['true', 'Also former ones']],
  },
];

/** The quotas of the account and of its users. */
export function Allocations() {
  const isAdmin = useIsAdmin();
  return (
    <Section title="Quotas of the account and its users" actions={<NewAllocation />}>
      <List
        operation="listQuotaAllocations"
        caption="Quotas"
        items={(data) => data.allocations}
        keyOf={(item) => item.allocation_id}
        columns={columns}
        filters={isAdmin ? [...filters, accountFilter] : filters}
        empty="No quota limits the account or a user. The plan does."
      />
    </Section>
  );
}
