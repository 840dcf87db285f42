import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import { burst, stdoutSpeed } from '../agent/measures.ts';
import { Subject } from '../agent/subject.ts';
import { summarize } from '../statistics.ts';
import type { Rivals } from './in-turns.ts';

const script = path.join(import.meta.dirname, 'procedures-server.ts');
const stdoutMib = 32;

/** The same handlers with the agent's own Connect server and with connect-node, each in its own process. */
export async function withConnectRivals(compare: (rivals: readonly Rivals[]) => Promise<void>): Promise<void> {
  const [ours, library] = [await start('ours'), await start('library')];
  const rivals = (
    measure: string,
    unit: string,
    better: Rivals['better'],
    run: (subject: Subject) => Promise<number>,
  ): Rivals => ({ measure, unit, better, ours: () => run(ours.subject), library: () => run(library.subject) });
  const stat = (connections: number, count: number) => (subject: Subject) =>
    burst(subject, connections, count, (connection) => subject.unary(connection, 'Filesystem/Stat', { path: '/etc' }));
  try {
    await compare([
      rivals(
        'Connect: Stat, p50, 1 connection',
        'ms',
        'less',
        async (subject) => summarize((await stat(1, 500)(subject)).latencyMs).p50,
      ),
      rivals(
        'Connect: Stat, 32 connections',
        'a second',
        'more',
        async (subject) => (await stat(32, 4000)(subject)).perSecond,
      ),
      rivals('Connect: stdout, JSON', 'MB/s', 'more', (subject) => stdoutSpeed(subject, stdoutMib, 'json')),
      rivals('Connect: stdout, binary', 'MB/s', 'more', (subject) => stdoutSpeed(subject, stdoutMib, 'proto')),
    ]);
  } finally {
    ours.child.kill();
    library.child.kill();
  }
}

async function start(which: 'ours' | 'library'): Promise<{ subject: Subject; child: ChildProcess }> {
  const child = spawn(process.execPath, [script, which], { stdio: ['ignore', 'pipe', 'inherit'] });
  const [line] = await once(child.stdout!, 'data');
  const subject = new Subject('agent');
  subject.port = Number(line);
  return { subject, child };
}
