import { Link } from '@tanstack/react-router';
import { ApiError, call, type DataOf } from '../../api/client.ts';
import { queryClient, useRead } from '../../api/queries.ts';
import { useIsAdmin, useIsRoot } from '../../app/session.tsx';
import { ConfirmedButton } from '../../components/confirm.tsx';
import { type Column, type Filter, List } from '../../components/list.tsx';
import { useNotice } from '../../components/notices.tsx';
import { PageBody } from '../../components/page.tsx';
import { Ago, Status, Text } from '../../components/values.tsx';
import { formatCount, formatMegabytes } from '../../format/numbers.ts';

type Item = DataOf<'listSandboxes'>['sandboxes'][number];

const statuses = ['running', 'paused', 'failed', 'created', 'starting', 'pausing', 'resuming', 'terminating', 'terminated'];

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
  { label: 'Status', sort: 'status', cell: (item) => <Status status={item.status} detail={item.reason} /> },
  { label: 'Template', cell: (item) => <Text>{item.template_name}</Text> },
  { label: 'Project', cell: (item) => <Text>{item.project_name}</Text> },
  {
    label: 'Size',
    cell: (item) => `${formatCount(item.cpu_count)} CPU · ${formatMegabytes(item.memory_mb)}`,
  },
  { label: 'Ends', cell: (item) => <Ago at={item.timeout_at} /> },
  { label: 'Created', sort: 'created_at', cell: (item) => <Ago at={item.created_at} /> },
];

export function Page() {
  const isRoot = useIsRoot();
  const isAdmin = useIsAdmin();
  const projects = useRead('listProjects', { query: { limit: 100 } }).data?.projects ?? [];
  const users = useRead('listUsers', { query: { limit: 100 } }, { when: isRoot }).data?.users ?? [];
  const filters: readonly Filter[] = [
    { name: 'search', label: 'Name, description or id' },
    { name: 'status', label: 'Status', options: statuses.map((each) => [each, each] as const) },
    { name: 'project_id', label: 'Project', options: projects.map((each) => [each.project_id, each.name] as const) },
    { name: 'metadata', label: 'Metadata (key=value)' },
    ...(isRoot
      ? [
          {
            name: 'owner_user_id',
            label: 'Owner',
            options: users.map((each) => [each.user_id, each.display_name || each.email] as const),
          },
        ]
      : []),
    ...(isAdmin ? [{ name: 'account_id', label: 'Account (id, or all)' }] : []),
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
        columns={columns}
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

type BatchOperation =
  | 'batchPauseSandboxes'
  | 'batchResumeSandboxes'
  | 'batchTerminateSandboxes'
  | 'batchDeleteSandboxes';

function BatchActions(props: { chosen: readonly string[]; done: () => void }) {
  const notify = useNotice();
  const object = props.chosen.length === 1 ? props.chosen[0]! : `${formatCount(props.chosen.length)} sandboxes`;
  const run = (operation: BatchOperation) => async () => {
    const { results } = await call(operation, { body: { sandbox_ids: [...props.chosen] } });
    await queryClient.invalidateQueries({ queryKey: ['listSandboxes'] });
    const refused = results.filter(({ status }) => status === 'failed');
    if (refused.length > 0) throw refusalOf(refused);
    notify(`${object}: done`);
    props.done();
  };
  const report = (work: () => Promise<void>) => () => work().catch((error: ApiError) => notify(error.message));
  return (
    <>
      <button type="button" onClick={report(run('batchPauseSandboxes'))}>
        Pause
      </button>
      <button type="button" onClick={report(run('batchResumeSandboxes'))}>
        Resume
      </button>
      <ConfirmedButton
        label="Terminate"
        object={object}
        what="The processes end and the disks are removed. The records stay."
        run={run('batchTerminateSandboxes')}
      />
      <ConfirmedButton
        label="Delete"
        object={object}
        what="The sandboxes end, and their data and records are removed."
        run={run('batchDeleteSandboxes')}
      />
    </>
  );
}

/** One error for the sandboxes that refused. */
function refusalOf(refused: readonly { sandbox_id: string; error?: string; code?: string }[]): ApiError {
  return new ApiError({
    status: 409,
    code: refused[0]!.code ?? 'refused',
    message: `${formatCount(refused.length)} refused`,
    details: refused.map(({ sandbox_id, error }) => ({ path: sandbox_id, reason: error ?? '' })),
  });
}
