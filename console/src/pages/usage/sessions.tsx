import { Link } from '@tanstack/react-router';
import type { DataOf } from '../../api/client.ts';
import { useRead } from '../../api/queries.ts';
import { useIsAdmin } from '../../api/session.ts';
import { type Column, Filters, List } from '../../components/list.tsx';
import { Loading } from '../../components/loaded.tsx';
import { accountFilter } from '../../components/owner-filters.ts';
import { useSpan } from '../../components/span.ts';
import { At, Status, Text } from '../../components/values.tsx';
import { formatCount, formatMegabytes, formatMoney, formatNumber } from '../../format/numbers.ts';
import { formatDuration } from '../../format/time.ts';
import { useProjectFilter } from './project-filter.ts';

type Item = DataOf<'listUsageSessions'>['sessions'][number];

const columns = (formatCost: (cost: number) => string): readonly Column<Item>[] => [
  {
    label: 'Sandbox',
    cell: (item) => (
      <Link to="/sandboxes/$sandboxId" params={{ sandboxId: item.resource_id }}>
        <Text>{item.resource_name}</Text>
      </Link>
    ),
  },
  { label: 'Status', cell: (item) => <Status status={item.status} /> },
  { label: 'Began', cell: (item) => <At at={item.start_time} /> },
  { label: 'Ended', cell: (item) => <At at={item.end_time} /> },
  { label: 'Length, with pauses', cell: (item) => formatDuration(item.duration) },
  {
    label: 'Size',
    cell: (item) =>
      `${formatCount(item.cpu_count)} CPU · ${formatMegabytes(item.memory_mb)} · ${formatMegabytes(item.storage_gb * 1024)} disk`,
  },
  {
    label: 'Cost',
    isNumber: true,
    cell: (item) =>
      item.final_cost === null ? `${formatCost(item.estimated_cost)} so far` : formatCost(item.final_cost),
  },
];

/** The lives of sandboxes, each with its cost. */
export function Sessions() {
  const isAdmin = useIsAdmin();
  const { span, filters } = useSpan('any');
  const projectFilter = useProjectFilter();
  const currency = useRead('getSubscription').data?.subscription.plan.currency;
  // The currency is the same everywhere, but sessions do not tell it.
  const formatCost = (cost: number) => (currency ? formatMoney(cost, currency) : formatNumber(cost));
  return (
    <>
      <p className="soft">
        A session is the life of a sandbox from its first running phase on. Its cost is that of its usage.
      </p>
      <Filters filters={filters} />
      {span === null ? (
        <Loading />
      ) : (
        <List
          operation="listUsageSessions"
          query={span}
          caption="Sessions of sandboxes"
          items={(data) => data.sessions}
          keyOf={(item) => item.session_id}
          columns={columns(formatCost)}
          filters={isAdmin ? [projectFilter, accountFilter] : [projectFilter]}
          empty="No sandbox began in this time."
        />
      )}
    </>
  );
}
