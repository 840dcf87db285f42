import { ApiError, call, type DataOf } from '../../api/client.ts';
import { queryClient, useChange } from '../../api/queries.ts';
import { type Column, List } from '../../components/list.tsx';
import { useNotice } from '../../components/notices.tsx';
import { PageBody } from '../../components/page.tsx';
import { Ago, Text } from '../../components/values.tsx';
import { formatCount } from '../../format/numbers.ts';

type Item = DataOf<'listDeadLetters'>['dead_letters'][number];

const columns: readonly Column<Item>[] = [
  { label: 'Given up', cell: (item) => <Ago at={item.dead_at} /> },
  { label: 'Requested', cell: (item) => <Ago at={item.created_at} /> },
  {
    label: 'What',
    cell: (item) => (
      <>
        {item.signal === null ? 'Start of ' : `Signal ${item.signal} to `}
        <Text>{item.workflow_type}</Text>
      </>
    ),
  },
  {
    label: 'Workflow',
    cell: (item) => (
      <code>
        <Text>{item.workflow_id}</Text>
      </code>
    ),
  },
  { label: 'Why', cell: (item) => <Text>{item.last_error}</Text> },
  { label: 'Attempts', isNumber: true, cell: (item) => formatCount(item.attempts) },
  { label: 'Actions', cell: (item) => <Retry item={item} /> },
];

/** Work that Temporal has refused, for operators. */
export function Page() {
  return (
    <PageBody title="Dead letters">
      <p>
        Starts of workflows and signals to them that Temporal has refused ten times. They wait here. Remove the cause,
        then retry them.
      </p>
      <List
        operation="listDeadLetters"
        caption="Dead letters"
        items={(data) => data.dead_letters}
        keyOf={(item) => item.id}
        columns={columns}
        batch={(chosen, done) => <RetryChosen chosen={chosen} done={done} />}
        empty="There are none: everything was delivered."
      />
    </PageBody>
  );
}

function Retry({ item: { id, workflow_id: workflowId } }: { item: Item }) {
  const retry = useChange('retryDeadLetter', ['listDeadLetters']);
  const notify = useNotice();
  const run = () =>
    retry.mutate(
      { path: { id } },
      {
        onSuccess: () => notify('It is delivered soon. If Temporal refuses it again, it comes back.'),
        onError: (error) => notify(error.message),
      },
    );
  return (
    <div className="row-actions">
      <button type="button" aria-label={`Retry ${workflowId}`} disabled={retry.isPending} onClick={run}>
        Retry
      </button>
    </div>
  );
}

function RetryChosen(props: { chosen: readonly string[]; done: () => void }) {
  const notify = useNotice();
  const run = async () => {
    const outcomes = await Promise.allSettled(props.chosen.map((id) => call('retryDeadLetter', { path: { id } })));
    await queryClient.invalidateQueries({ queryKey: ['listDeadLetters'] });
    const refused = outcomes.find((each) => each.status === 'rejected');
    const { reason } = refused ?? {};
    if (refused) notify(reason instanceof ApiError ? reason.message : 'Not all could be retried');
    else notify(`${formatCount(props.chosen.length)} are delivered soon`);
    props.done();
  };
  return (
    <button type="button" onClick={run}>
      Retry
    </button>
  );
}
