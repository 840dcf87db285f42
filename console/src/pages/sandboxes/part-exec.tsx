import { type ReactNode, useEffect, useState } from 'react';
import type { DataOf } from '../../api/client.ts';
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
  const view = useRun(run?.stream_path ?? null);
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
        actions={isRunning && <Cancel sandboxId={sandbox.sandbox_id} isKnown={run !== null && view.end === null} />}
      >
        {isRunning ? (
          <fieldset className="plain" disabled={goesOn}>
            <CommandForm
              path={path}
              onStarted={(started, command) => {
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

/** Also ends a command of another user, whose output is not shown here. */
function Cancel({ sandboxId, isKnown }: { sandboxId: string; isKnown: boolean }) {
  const cancel = useChange('cancelExec', ['getActiveExec']);
  const notify = useNotice();
  return (
    <button
      type="button"
      className={isKnown ? 'danger' : 'quiet'}
      disabled={cancel.isPending}
      onClick={() =>
        cancel.mutate(
          { path: { sandbox_id: sandboxId } },
          {
            onSuccess: () => notify('The command has ended'),
            onError: (error) => notify(error.message),
          },
        )
      }
    >
      {isKnown ? 'Cancel the running command' : 'Cancel a command of another user'}
    </button>
  );
}
