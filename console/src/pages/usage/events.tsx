import { Link } from '@tanstack/react-router';
import type { DataOf } from '../../api/client.ts';
import { useIsAdmin, useIsRoot } from '../../api/session.ts';
import { type Column, type Filter, Filters, List } from '../../components/list.tsx';
import { Loading } from '../../components/loaded.tsx';
import { accountFilter } from '../../components/owner-filters.ts';
import { useSpan } from '../../components/span.ts';
import { formatQuantity, nameOfKind, usageKinds } from '../../components/usage-kinds.ts';
import { At } from '../../components/values.tsx';
import { formatMoney, formatPrice } from '../../format/numbers.ts';
import { useProjectFilter } from './project-filter.ts';

type Item = DataOf<'listUsageEvents'>['events'][number];

const columns: readonly Column<Item>[] = [
  { label: 'From', cell: (item) => <At at={item.period_start} /> },
  { label: 'To', cell: (item) => <At at={item.period_end} /> },
  {
    label: 'Object',
    cell: ({ resource_type: type, resource_id: id }) =>
      type === 'sandbox' ? (
        <Link to="/sandboxes/$sandboxId" params={{ sandboxId: id }}>
          {id}
        </Link>
      ) : (
        <Link to="/templates/$templateId" params={{ templateId: id }}>
          {id}
        </Link>
      ),
  },
  {
    label: 'Project',
    cell: ({ project_id: id }) =>
      id === null ? (
        '–'
      ) : (
        <Link to="/projects/$projectId" params={{ projectId: id }}>
          {id}
        </Link>
      ),
  },
  { label: 'Usage', cell: (item) => nameOfKind(item.usage_type) },
  { label: 'Quantity', isNumber: true, cell: (item) => formatQuantity(item.usage_quantity, item.usage_unit) },
  {
    label: 'Price of a unit',
    isNumber: true,
    cell: (item) =>
      item.tags.includes('charged') ? formatPrice(item.unit_price, item.currency) : 'Measured, not charged',
  },
  { label: 'Cost', isNumber: true, cell: (item) => formatMoney(item.total_cost, item.currency) },
];
const user: Column<Item> = {
  label: 'User',
  cell: ({ user_id: id }) => (
    <Link to="/users/$userId" params={{ userId: id }}>
      {id}
    </Link>
  ),
};

const filters: readonly Filter[] = [
  {
    name: 'resource_type',
    label: 'Object',
    options: [
      ['sandbox', 'Sandboxes'],
      ['template', 'Templates'],
    ],
  },
  { name: 'usage_type', label: 'Usage', options: Object.entries(usageKinds) },
];

/** What the platform has recorded: an event for each object, kind and period. */
export function Events() {
  const [isRoot, isAdmin] = [useIsRoot(), useIsAdmin()];
  const { span, filters: spanFilters } = useSpan('any');
  const projectFilter = useProjectFilter();
  return (
    <>
      <p className="soft">
        Usage is recorded when a sandbox changes, and every hour. A period never crosses a full hour (UTC), and an event
        never changes. Old events are removed; their sums stay in the report.
      </p>
      <Filters filters={spanFilters} />
      {span === null ? (
        <Loading />
      ) : (
        <List
          operation="listUsageEvents"
          query={span}
          caption="Usage events"
          items={(data) => data.events}
          keyOf={(item) => item.event_id}
          columns={isRoot || isAdmin ? [...columns, user] : columns}
          filters={[projectFilter, ...filters, ...(isAdmin ? [accountFilter] : [])]}
          empty="No usage was recorded in this time."
        />
      )}
    </>
  );
}
