import path from 'node:path';
import { spawn } from '@lydell/node-pty';
import { launchOnTerminal } from '../../agent/process/launch.ts';
import { OutputPipe } from '../../agent/process/output-pipe.ts';
import { summarize } from '../statistics.ts';
import type { Rivals } from './in-turns.ts';

const outputMib = 64;
const echoes = 300;
const env = { PATH: '/usr/bin:/bin', TERM: 'xterm' };

/** Programs on separate terminals: their output, and the delay of the echo of typed input. */
export function terminalRivals(): Rivals[] {
  // The agent looks for its native addon beside its bundle.
  process.argv[1] = path.resolve(import.meta.dirname, '../../agent/dist/agent.cjs');
  return [
    {
      measure: 'terminal: output',
      unit: 'MB/s',
      better: 'more',
      ours: () => outputSpeed(openOurs),
      library: () => outputSpeed(openNodePty),
    },
    {
      measure: 'terminal: echo, p50',
      unit: 'ms',
      better: 'less',
      ours: () => echoTime(openOurs),
      library: () => echoTime(openNodePty),
    },
    {
      measure: 'terminal: start to exit of `true`',
      unit: 'ms',
      better: 'less',
      ours: () => startTime(openOurs),
      library: () => startTime(openNodePty),
    },
  ];
}

interface Terminal {
  write(text: string): void;
  ended: Promise<unknown>;
}
type Open = (command: string, args: string[], onBytes: (bytes: Buffer) => void) => Promise<Terminal>;

const openOurs: Open = async (command, args, onBytes) => {
  const { terminal, exited } = await launchOnTerminal({ command, args, env, searchPath: env.PATH, cwd: '/' }, 80, 24);
  const drained = Promise.withResolvers<void>();
  const pipe = new OutputPipe(
    terminal!,
    true,
    (bytes) => {
      onBytes(bytes);
      return true;
    },
    () => drained.resolve(),
  );
  // Waiting for a signal does not keep Node alive. In the agent its server does.
  const alive = setInterval(() => undefined, 1000);
  const ended = Promise.all([exited, drained.promise]).finally(() => clearInterval(alive));
  return { write: (text) => pipe.write(Buffer.from(text), () => {}), ended };
};

const openNodePty: Open = async (command, args, onBytes) => {
  const pty = spawn(command, args, { env, cwd: '/', cols: 80, rows: 24, encoding: null });
  pty.onData((bytes) => onBytes(bytes as unknown as Buffer));
  return { write: (text) => pty.write(text), ended: new Promise((resolve) => void pty.onExit(resolve)) };
};

async function outputSpeed(open: Open): Promise<number> {
  let received = 0;
  const startedMs = performance.now();
  const { ended } = await open('head', ['-c', `${outputMib}M`, '/dev/zero'], (bytes) => {
    received += bytes.length;
  });
  await ended;
  const seconds = (performance.now() - startedMs) / 1000;
  if (received < outputMib * 2 ** 20) throw new Error(`only ${received} bytes came`);
  return received / 1e6 / seconds;
}

async function echoTime(open: Open): Promise<number> {
  let arrived: (() => void) | undefined;
  const terminal = await open('cat', [], () => arrived?.());
  const times: number[] = [];
  for (let echo = 0; echo < echoes; echo += 1) {
    const startedMs = performance.now();
    const back = new Promise<void>((resolve) => {
      arrived = resolve;
    });
    terminal.write('x');
    await back;
    times.push(performance.now() - startedMs);
  }
  // Ends the line, then the input.
  terminal.write('\n\x04');
  await terminal.ended;
  return summarize(times).p50;
}

async function startTime(open: Open): Promise<number> {
  const times: number[] = [];
  for (let run = 0; run < 20; run += 1) {
    const startedMs = performance.now();
    await (await open('true', [], () => {})).ended;
    times.push(performance.now() - startedMs);
  }
  return summarize(times).p50;
}
