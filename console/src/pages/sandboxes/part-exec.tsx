import { type ReactNode, useEffect, useState } from 'react';
import type { ApiError, DataOf } from '../../api/client.ts';
import { useChange, useRead } from '../../api/queries.ts';
import { BodyForm } from '../../components/body-form.tsx';
import type { OwnInput } from '../../components/body-inputs.tsx';
import { Empty } from '../../components/loaded.tsx';
import { useNotice } from '../../components/notices.tsx';
import { Section } from '../../components/page.tsx';
import { Ago, At, Facts } from '../../components/values.tsx';
import { visibleText } from '../../format/text.ts';
import { RunOutput } from './run-view.tsx';
import type { Sandbox } from './sandbox-words.ts';
import { useRun } from './use-run.ts';

/** A command that was started here, or that the person started elsewhere and still runs. */
interface Run {
  stream_path: string;
  started_at: string;
  deadline: string;
  command: string;
}

/** Runs one command at a time and shows its output as it comes. */
export function Commands({ sandbox }: { sandbox: Sandbox }) {
  const path = { sandbox_id: sandbox.sandbox_id };
  const isRunning = sandbox.status === 'running';
  const active = useRead('getActiveExec', { path }, { when: isRunning });
  const [run, setRun] = useState<Run | null>(null);
  /** A start was refused because a command runs, such as one of another user, whose output is not shown here. */
  const [isOccupied, setOccupied] = useState(false);
  const view = useRun(run?.stream_path ?? null);
  const isShown = run !== null && view.end === null;
  const goesOn = run !== null && view.end === null && view.connection !== 'lost';
  useEffect(() => {
    if (active.data?.active && !goesOn) setRun(unlessKnown(active.data));
  }, [active.data, goesOn]);
  const connectAgain = async () => {
    const { data } = await active.refetch();
    setRun(data?.active ? data : null);
  };
  return (
    <>
      <Section
        title="Run a command"
        actions={
          isRunning &&
          (isShown || isOccupied) && (
            <Cancel
              sandboxId={sandbox.sandbox_id}
              label={isShown ? 'Cancel the running command' : 'Cancel the other command'}
              onDone={() => setOccupied(false)}
            />
          )
        }
      >
        {isRunning ? (
          <fieldset className="plain" disabled={goesOn}>
            <CommandForm
              path={path}
              onFailure={({ code }) => setOccupied(code === 'exec_in_progress')}
              onStarted={(started, command) => {
                setOccupied(false);
                if ('stream_path' in started) setRun(unlessKnown({ ...started, command }));
              }}
            />
          </fieldset>
        ) : (
          <Empty>Commands run while the sandbox runs.</Empty>
        )}
      </Section>
      {run !== null && (
        <Section
          title="Output"
          actions={view.connection === 'lost' && <Button onClick={connectAgain}>Connect again</Button>}
        >
          <Facts
            rows={[
              ['Command', <code key="command">{visibleText(run.command)}</code>],
              ['Started', <At key="started" at={run.started_at} />],
              goesOn && ['Is killed', <Ago key="deadline" at={run.deadline} />],
            ]}
          />
          <RunOutput key={run.stream_path} run={view} />
        </Section>
      )}
    </>
  );
}

/** Each reply has the stream of a run with another token, so a run that is known keeps its stream. */
const unlessKnown = (next: Run) => (before: Run | null) => (before?.started_at === next.started_at ? before : next);

function Button(props: { onClick: () => void; children: ReactNode }) {
  return (
    <button type="button" onClick={props.onClick}>
      {props.children}
    </button>
  );
}

function CommandForm(props: {
  path: { sandbox_id: string };
  onStarted: (started: DataOf<'startExec'>, command: string) => void;
  onFailure: (error: ApiError) => void;
}) {
  return (
    <BodyForm
      operation="startExec"
      path={props.path}
      sections={[{ fields: ['command'] }, { title: 'Folder, environment and input', fields: ['cwd', 'env', 'stdin'] }]}
      labels={{ cwd: 'Folder', env: 'Environment variables', stdin: 'Standard input' }}
      help={{
        command: 'For bash, or sh if there is no bash. Ctrl+Enter runs it.',
        cwd: 'Where the command runs. Empty: /.',
        env: "Beside the sandbox's variables, and instead of those of the same name.",
        stdin: 'What the command reads. Empty: nothing.',
      }}
      inputs={{ command: CommandInput, cwd: FolderInput }}
      changes={['getActiveExec']}
      submitLabel="Run"
      onDone={(started, { command }) => props.onStarted(started, command)}
      onFailure={props.onFailure}
    />
  );
}

const CommandInput: OwnInput = ({ value, onChange, ...ids }) => (
  <textarea
    {...ids}
    required
    rows={3}
    spellCheck={false}
    autoCapitalize="off"
    aria-keyshortcuts="Control+Enter Meta+Enter"
    value={value}
    onChange={(event) => onChange(event.target.value)}
    onKeyDown={(event) => {
      if (event.key !== 'Enter' || !(event.ctrlKey || event.metaKey)) return;
      event.preventDefault();
      event.currentTarget.form?.requestSubmit();
    }}
  />
);

const FolderInput: OwnInput = ({ value, onChange, ...ids }) => (
  <input {...ids} placeholder="/" spellCheck={false} value={value} onChange={(event) => onChange(event.target.value)} />
);

function Cancel(props: { sandboxId: string; label: string; onDone: () => void }) {
  const cancel = useChange('cancelExec', ['getActiveExec']);
  const notify = useNotice();
  return (
    <button
      type="button"
      className="danger"
      disabled={cancel.isPending}
      onClick={() =>
        cancel.mutate(
          { path: { sandbox_id: props.sandboxId } },
          {
            onSuccess: () => {
              notify('The command has ended');
              props.onDone();
            },
            onError: (error) => notify(error.message),
          },
        )
      }
    >
      {props.label}
    </button>
  );
}
