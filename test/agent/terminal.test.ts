import fs from 'node:fs';
import { Code } from '@connectrpc/connect';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { Process, Signal } from '../../agent/proto/gen/sandboxagent_pb.js';
import { readIfThere } from '../support/read-if-there.ts';
import { eventually, type Protocol, TestAgent } from './support/agent.ts';
import { Terminal, type WindowSize } from './support/terminal.ts';

let agent: TestAgent;
beforeAll(async () => {
  agent = await TestAgent.start();
});
afterAll(() => agent.stop());

const start = (words: string[], size?: WindowSize, protocol?: Protocol, envs?: Record<string, string>) =>
  new Terminal(agent.client(Process, protocol), words, { size, envs });
const shell = (size?: WindowSize, protocol?: Protocol) => start(['/bin/sh', '-i'], size, protocol, { PS1: 'ready> ' });

test.each(['connect+json', 'connect+proto', 'grpc-web', 'grpc'] as const)(
  'over %s a shell has its terminal, with the requested size',
  async (protocol) => {
    const terminal = shell({ cols: 132, rows: 43 }, protocol);
    await terminal.shows(/ready> /);
    await terminal.type('tty; stty size; echo $TERM\n');
    await terminal.shows(/\/dev\/pts\/\d+\r\n43 132\r\nxterm-256color\r\n/);
    await terminal.type('exit 4\n');
    await terminal.finished;
    expect(terminal.end).toMatchObject({ exitCode: 4, exited: true });
  },
);

test('without a size it is 80 by 24', async () => {
  const terminal = start(['stty', 'size']);
  await terminal.finished;
  expect(terminal.screen).toBe('24 80\r\n');
});

test('Update resizes it, and its program gets SIGWINCH', async () => {
  const terminal = start(['/bin/sh', '-c', 'trap "stty size" WINCH; echo ready; while :; do sleep 0.02; done'], {
    cols: 80,
    rows: 24,
  });
  await terminal.shows(/ready/);
  await agent.client(Process).update({ process: terminal.process, pty: { size: { cols: 100, rows: 50 } } });
  await terminal.shows(/50 100/);
  await agent.client(Process).update({ process: terminal.process });
  await expect(
    agent.client(Process).update({ process: terminal.process, pty: { size: { cols: 70_000, rows: 1 } } }),
  ).rejects.toMatchObject({ code: Code.InvalidArgument });
  await agent.client(Process).sendSignal({ process: terminal.process, signal: Signal.SIGKILL });
  await terminal.finished;
});

test('Ctrl-C interrupts the foreground process, and the shell continues', async () => {
  const terminal = shell();
  await terminal.shows(/ready> /);
  await terminal.type('sleep 600; echo "code $?"\n');
  await eventually(() => readIfThere(`/proc/${readForeground(terminal.pid)}/comm`) === 'sleep\n');
  await terminal.type('\x03');
  await terminal.type('echo "still $((1 + 1))"\n');
  await terminal.shows(/still 2/);
  // End of input.
  await terminal.type('\x04');
  await terminal.finished;
  expect(terminal.end).toMatchObject({ exited: true });
});

test('a large output on a terminal arrives completely', async () => {
  const terminal = start(['seq', '100000'], { cols: 80, rows: 24 });
  await terminal.finished;
  expect(terminal.screen).toBe(Array.from({ length: 100_000 }, (_, i) => `${i + 1}\r\n`).join(''));
});

test('when the shell is killed, its foreground process gets SIGHUP', async () => {
  const terminal = shell();
  await terminal.shows(/ready> /);
  await terminal.type('sleep 600\n');
  await eventually(() => readIfThere(`/proc/${readForeground(terminal.pid)}/comm`) === 'sleep\n');
  const foreground = readForeground(terminal.pid);
  await agent.client(Process).sendSignal({ process: terminal.process, signal: Signal.SIGKILL });
  await terminal.finished;
  expect(terminal.end).toMatchObject({ exitCode: 137, exited: false });
  await eventually(() => !fs.existsSync(`/proc/${foreground}`));
});

test('terminal and pipe each accept only their own kind of input', async () => {
  const terminal = shell();
  await terminal.shows(/ready> /);
  const stdin = { input: { case: 'stdin' as const, value: Buffer.from('x') } };
  await expect(agent.client(Process).sendInput({ process: terminal.process, input: stdin })).rejects.toMatchObject({
    code: Code.FailedPrecondition,
  });
  await terminal.type('exit\n');
  await terminal.finished;
});

test('a program that cannot be run is an error, and leaves no terminal behind', async () => {
  const before = terminals();
  await expect(start(['/no/such']).finished).rejects.toMatchObject({ code: Code.NotFound });
  await eventually(() => terminals() <= before);
});

/** The agent's number of terminals. Others on this machine come and go. */
function terminals(): number {
  const folder = `/proc/${agent.process.pid}/fd`;
  return fs.readdirSync(folder).filter((fd) => {
    try {
      return fs.readlinkSync(`${folder}/${fd}`).endsWith('/ptmx');
    } catch {
      // It was closed since the listing.
      return false;
    }
  }).length;
}

/** The foreground process group of the terminal of `pid`. */
function readForeground(pid: number): number {
  const [, fields] = fs.readFileSync(`/proc/${pid}/stat`, 'latin1').split(') ');
  return Number(fields!.split(' ')[5]);
}
