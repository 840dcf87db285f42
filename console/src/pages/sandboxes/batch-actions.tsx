import { useState } from 'react';
import { ApiError, call } from '../../api/client.ts';
import { queryClient } from '../../api/queries.ts';
import { ConfirmedButton } from '../../components/confirm.tsx';
import { useNotice } from '../../components/notices.tsx';
import { Problem } from '../../components/problem.tsx';
import { formatCount } from '../../format/numbers.ts';
import { followDeletion } from './use-sandbox.ts';

type BatchOperation =
  | 'batchPauseSandboxes'
  | 'batchResumeSandboxes'
  | 'batchTerminateSandboxes'
  | 'batchDeleteSandboxes';

/** What can be done with the chosen sandboxes of the list. */
export function BatchActions(props: { chosen: readonly string[]; done: () => void }) {
  const notify = useNotice();
  const [failure, setFailure] = useState<ApiError | null>(null);
  const [isRunning, setRunning] = useState(false);
  const object = props.chosen.length === 1 ? props.chosen[0]! : `${formatCount(props.chosen.length)} sandboxes`;
  const run = async (operation: BatchOperation, force?: true) => {
    setFailure(null);
    const body = { sandbox_ids: [...props.chosen], ...(force && { force }) };
    const { results } = await call(operation, { body });
    if (operation === 'batchDeleteSandboxes') followDeletion();
    await queryClient.invalidateQueries({ queryKey: ['listSandboxes'] });
    const refused = results.filter(({ status }) => status === 'failed');
    if (refused.length > 0) throw refusalOf(refused);
    notify(`${object}: done`);
    props.done();
  };
  const runAtOnce = async (operation: BatchOperation) => {
    setRunning(true);
    await run(operation).catch(setFailure);
    setRunning(false);
  };
  return (
    <>
      <button type="button" disabled={isRunning} onClick={() => runAtOnce('batchPauseSandboxes')}>
        Pause
      </button>
      <button type="button" disabled={isRunning} onClick={() => runAtOnce('batchResumeSandboxes')}>
        Resume
      </button>
      <ConfirmedButton
        label="Terminate"
        object={object}
        what="Their processes end and their disks are removed, also of those that start or pause now. The records stay."
        run={() => run('batchTerminateSandboxes', true)}
      />
      <ConfirmedButton
        label="Delete"
        object={object}
        what="They end, also those that run, and their disks, data and records are removed."
        run={() => run('batchDeleteSandboxes', true)}
      />
      {failure && <Problem error={failure} />}
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
