import { Link } from '@tanstack/react-router';
import type { DataOf } from '../../api/client.ts';
import { useRead } from '../../api/queries.ts';
import { useIsRoot } from '../../api/session.ts';
import { type Column, type Filter, List } from '../../components/list.tsx';
import { useOwnerFilters } from '../../components/owner-filters.ts';
import { PageBody } from '../../components/page.tsx';
import { Ago, Status, Text } from '../../components/values.tsx';
import { formatCount, formatMegabytes } from '../../format/numbers.ts';
import { BatchActions } from './batch-actions.tsx';
import { describeReason, statuses } from './sandbox-words.ts';

type Item = DataOf<'listSandboxes'>['sandboxes'][number];

const columns: readonly Column<Item>[] = [
  {
    label: 'Name',
    sort: 'name',
    cell: (item) => (
      <Link to="/sandboxes/$sandboxId" params={{ sandboxId: item.sandbox_id }}>
        <Text>{item.name}</Text>
      </Link>
    ),
  },
  { label: 'Status', sort: 'status', cell: (item) => <StatusOf item={item} /> },
  { label: 'Template', cell: (item) => <Text>{item.template_name}</Text> },
  { label: 'Project', cell: (item) => <Text>{item.project_name}</Text> },
  {
    label: 'Size',
    cell: (item) =>
      `${formatCount(item.cpu_count)} CPU · ${formatMegabytes(item.memory_mb)} · ${formatMegabytes(item.storage_gb * 1024)} disk`,
  },
  { label: 'Ends', cell: (item) => <EndOf item={item} /> },
  { label: 'Created', sort: 'created_at', cell: (item) => <Ago at={item.created_at} /> },
];

/** The status, and why it stands still or has ended if nobody asked for that. */
function StatusOf({ item: { status, reason } }: { item: Item }) {
  const isNews = reason !== 'user_requested' && (status === 'paused' || status === 'failed' || status === 'terminated');
  return (
    <div>
      <Status status={status} /> {isNews && <span className="soft">{describeReason(reason)}</span>}
    </div>
  );
}

/** When it ends or pauses by itself; a paused one, until when it is kept. */
function EndOf({ item: { timeout_at, auto_pause, persistence_expires_at } }: { item: Item }) {
  if (timeout_at !== null) {
    return (
      <div>
        {auto_pause && 'pauses '}
        <Ago at={timeout_at} />
      </div>
    );
  }
  return <Ago at={persistence_expires_at} />;
}

/** For root users, who see the sandboxes of others. */
function useOwnerColumn(): readonly Column<Item>[] {
  const isRoot = useIsRoot();
  const users = useRead('listUsers', { query: { limit: 100 } }, { when: isRoot }).data?.users ?? [];
  const names = new Map(users.map((each) => [each.user_id, each.display_name || each.email]));
  if (!isRoot) return [];
  return [{ label: 'Owner', cell: (item) => <Text>{names.get(item.owner_user_id) ?? item.owner_user_id}</Text> }];
}

export function Page() {
  const projects = useRead('listProjects', { query: { limit: 100 } }).data?.projects ?? [];
  const filters: readonly Filter[] = [
    { name: 'search', label: 'Name, description or id' },
    { name: 'status', label: 'Status', options: statuses.map((each) => [each, each] as const) },
    { name: 'project_id', label: 'Project', options: projects.map((each) => [each.project_id, each.name] as const) },
    { name: 'metadata', label: 'Metadata (key=value)' },
    ...useOwnerFilters('owner_user_id'),
  ];
  return (
    <PageBody
      title="Sandboxes"
      actions={
        <Link to="/sandboxes/new" className="button primary">
          New sandbox
        </Link>
      }
    >
      <List
        operation="listSandboxes"
        caption="Sandboxes"
        items={(data) => data.sandboxes}
        keyOf={(item) => item.sandbox_id}
        columns={[...columns, ...useOwnerColumn()]}
        filters={filters}
        batch={(chosen, done) => <BatchActions chosen={chosen} done={done} />}
        empty="You have no sandboxes yet."
        emptyAction={
          <Link to="/sandboxes/new" className="button primary">
            Make the first one
          </Link>
        }
      />
    </PageBody>
  );
}
