import { memo, useLayoutEffect, useRef, useState } from 'react';
import { Status } from '../../components/values.tsx';
import { visibleText } from '../../format/text.ts';
import type { OutputName, OutputPart } from './run-output.ts';
import { exitCodeText } from './sandbox-words.ts';
import type { RunEnd, RunView } from './use-run.ts';

const choices: readonly (readonly ['all' | OutputName, string])[] = [
  ['all', 'All output'],
  ['stdout', 'Only stdout'],
  ['stderr', 'Only stderr'],
];

/** The output of a command, and how it ended. */
export function RunOutput({ run }: { run: RunView }) {
  const [chosen, setChosen] = useState<'all' | OutputName>('all');
  const shown = run.parts.filter(({ from }) => chosen === 'all' || from === chosen);
  const hasErrors = run.parts.some(({ from }) => from === 'stderr');
  const box = useStickyEnd();
  return (
    <>
      <div className="section-header">
        <p role="status">
          <RunState run={run} />
        </p>
        <label>
          <span className="hidden">Which output</span>
          <select value={chosen} onChange={(event) => setChosen(event.target.value as 'all' | OutputName)}>
            {choices.map(([value, label]) => (
              <option key={value} value={value}>
                {label}
              </option>
            ))}
          </select>
        </label>
      </div>
      {run.isCut && <p className="soft">Not all output is shown: only the newest is kept.</p>}
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: the keyboard scrolls it */}
      <pre className="terminal-output" ref={box} tabIndex={0} role="log" aria-live="off" aria-label="Output">
        {shown.map((part) => (
          <Part key={part.id} part={part} />
        ))}
      </pre>
      {hasErrors && chosen === 'all' && <p className="soft run-legend">Text like this is from stderr.</p>}
    </>
  );
}

/** Most parts do not change when output comes. */
const Part = memo(({ part: { from, text } }: { part: OutputPart }) =>
  from === 'stderr' ? <span className="run-stderr">{text}</span> : <span>{text}</span>,
);

/** The box stays at its end while output comes, unless the person has scrolled up. */
function useStickyEnd() {
  const box = useRef<HTMLPreElement>(null);
  const isAtEnd = useRef(true);
  useLayoutEffect(() => {
    const element = box.current!;
    if (isAtEnd.current) element.scrollTop = element.scrollHeight;
    const onScroll = () => {
      isAtEnd.current = element.scrollHeight - element.scrollTop - element.clientHeight < 24;
    };
    element.addEventListener('scroll', onScroll);
    return () => element.removeEventListener('scroll', onScroll);
  });
  return box;
}

function RunState({ run: { end, connection } }: { run: RunView }) {
  if (end !== null) return <Ended end={end} />;
  if (connection === 'lost') return <Status status="lost" detail="the output cannot be followed" />;
  return connection === 'open' ? <Status status="running" /> : 'Connecting …';
}

const earlyEnds: ReadonlyMap<string, string> = new Map([
  ['cancelled', 'It was cancelled.'],
  ['deadline_exceeded', 'It was killed at its deadline.'],
  ['sandbox_ended', 'The sandbox has ended.'],
  ['exec_interrupted', 'The connection to the sandbox broke. The command may still run.'],
  ['credential_revoked', 'Your session has ended. The command may still run.'],
]);

function Ended({ end }: { end: RunEnd }) {
  if ('exitCode' in end) {
    return (
      <>
        <Status status={end.exitCode === 0 ? 'succeeded' : 'failed'} /> Exit code {exitCodeText(end.exitCode)}
      </>
    );
  }
  return (
    <>
      <Status status="failed" /> {earlyEnds.get(end.code) ?? visibleText(end.message)}
    </>
  );
}
