import { useEffect, useState } from 'react';
import { apiUrl } from '../../api/client.ts';
import { BoundedOutput, type OutputName, type OutputPart, OutputText } from './run-output.ts';

/** How a command ended: with an exit code, or early for a reason. */
export type RunEnd = { exitCode: number } | { code: string; message: string };

export interface RunView {
  parts: readonly OutputPart[];
  /** Output before these parts is not kept. */
  isCut: boolean;
  end: RunEnd | null;
  /** The browser connects again by itself, except when the stream is lost. */
  connection: 'connecting' | 'open' | 'lost';
}

/** Output comes faster than a page can show it. */
const gatherMs = 100;

const nothing: RunView = { parts: [], isCut: false, end: null, connection: 'connecting' };

/** Follows the output of a command. @param streamPath with the token of this run. Null: none */
export function useRun(streamPath: string | null): RunView {
  const [view, setView] = useState(nothing);
  useEffect(() => {
    setView(nothing);
    return streamPath === null ? undefined : followRun(streamPath, setView);
  }, [streamPath]);
  return view;
}

/** @returns a function that stops it */
function followRun(streamPath: string, show: (view: RunView) => void): () => void {
  const source = new EventSource(apiUrl(streamPath));
  const output = new BoundedOutput();
  const texts = { stdout: new OutputText(), stderr: new OutputText() };
  let end: RunEnd | null = null;
  let connection: RunView['connection'] = 'connecting';
  let timer: number | undefined;
  let lastNumber = 0;
  const change = () => {
    timer ??= window.setTimeout(() => {
      timer = undefined;
      show({ parts: output.parts, isCut: output.isCut, end, connection });
    }, gatherMs);
  };
  // The events are numbered. Missing numbers are of output that was no longer kept.
  const count = ({ lastEventId }: MessageEvent<string>) => {
    const number = Number(/-(\d+)$/.exec(lastEventId)?.[1] ?? lastNumber);
    if (number > lastNumber + 1) output.isCut = true;
    lastNumber = number;
  };
  const finish = (how: RunEnd) => {
    source.close();
    for (const name of ['stdout', 'stderr'] as const) output.add(name, texts[name].end());
    end = how;
    change();
  };
  const onOutput = (name: OutputName) => (event: MessageEvent<string>) => {
    const { data_b64: data } = readEvent(event);
    count(event);
    try {
      output.add(name, texts[name].add(String(data)));
    } catch {
      // Root in the sandbox can forge what its agent sends.
      return;
    }
    change();
  };
  source.addEventListener('ready', () => {
    connection = 'open';
    change();
  });
  source.addEventListener('start', count);
  source.addEventListener('stdout', onOutput('stdout'));
  source.addEventListener('stderr', onOutput('stderr'));
  source.addEventListener('end', (event: MessageEvent<string>) =>
    finish({ exitCode: Number(readEvent(event).exit_code) }),
  );
  // The last event of a command that ended early, and the browser's own event for a lost connection have one name.
  source.addEventListener('error', (event) => {
    if (event instanceof MessageEvent) {
      const { code, message } = readEvent(event);
      finish({ code: String(code), message: String(message) });
      return;
    }
    connection = source.readyState === EventSource.CLOSED ? 'lost' : 'connecting';
    change();
  });
  return () => {
    source.close();
    window.clearTimeout(timer);
  };
}

function readEvent({ data }: MessageEvent<string>): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(data);
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
  } catch {
    return {};
  }
}
