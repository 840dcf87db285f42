import fs from 'node:fs';
import net from 'node:net';
import { Code, ConnectError } from '@connectrpc/connect';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { Process, type ProcessEvent, Signal } from '../../agent/proto/gen/sandboxagent_pb.js';
import { findProcesses } from '../support/find-processes.ts';
import { readIfThere } from '../support/read-if-there.ts';
import { eventually, headers, type Protocol, platformToken, sandbox, TestAgent } from './support/agent.ts';

let agent: TestAgent;
beforeAll(async () => {
  const init = sandbox({ env: { FROM_SANDBOX: 'sandbox', BOTH: 'sandbox' } });
  agent = await TestAgent.start({ boot: { platformToken, init }, env: { FROM_IMAGE: 'image', BOTH: 'image' } });
});
afterAll(() => agent.stop());

type End = Extract<ProcessEvent['event'], { case: 'end' }>['value'];

/** Follows a process's stream. The fields have the data received so far. */
class Run {
  pid = 0;
  cases: string[] = [];
  stdout = Buffer.alloc(0);
  stderr = Buffer.alloc(0);
  end: End | undefined;
  error: ConnectError | undefined;
  readonly finished: Promise<this>;
  readonly #abort = new AbortController();

  constructor(open: (signal: AbortSignal) => AsyncIterable<{ event?: ProcessEvent }>) {
    this.finished = this.#follow(open(this.#abort.signal));
  }

  leave(): Promise<this> {
    this.#abort.abort();
    return this.finished;
  }

  started(): Promise<number> {
    return eventually(() => this.pid || (this.error && Promise.reject(this.error)));
  }

  async #follow(stream: AsyncIterable<{ event?: ProcessEvent }>): Promise<this> {
    try {
      for await (const { event: current } of stream) {
        const event = current!.event;
        this.cases.push(event.case!);
        if (event.case === 'start') this.pid = event.value.pid;
        if (event.case === 'end') this.end = event.value;
        if (event.case !== 'data') continue;
        const { output } = event.value;
        if (output.case === 'stdout') this.stdout = Buffer.concat([this.stdout, output.value]);
        if (output.case === 'stderr') this.stderr = Buffer.concat([this.stderr, output.value]);
      }
    } catch (error) {
      this.error = ConnectError.from(error);
    }
    return this;
  }
}

const start = (request: object, protocol: Protocol = 'connect+json', header = {}) =>
  new Run((signal) => agent.client(Process, protocol, header).start(request, { signal }));
const sh = (script: string, more: object = {}, protocol: Protocol = 'connect+json') =>
  start({ process: { cmd: '/bin/sh', args: ['-c', script] }, ...more }, protocol);
const connect = (process: object) =>
  new Run((signal) => agent.client(Process).connect({ process: process as never }, { signal }));

describe.each(['connect+json', 'connect+proto', 'grpc-web', 'grpc'] as const)('over %s', (protocol) => {
  test('start comes first, then output by channel, then the end with its code', async () => {
    const run = await sh('echo out; echo err >&2; exit 3', {}, protocol).finished;
    expect(run.error).toBeUndefined();
    expect(run.cases[0]).toBe('start');
    expect(run.cases.at(-1)).toBe('end');
    expect(run.pid).toBeGreaterThan(1);
    expect(run.stdout.toString()).toBe('out\n');
    expect(run.stderr.toString()).toBe('err\n');
    expect(run.end).toMatchObject({ exitCode: 3, exited: true, status: 'exit status 3', error: 'exit status 3' });
  });

  test('all bytes of a large output come, in order', async () => {
    const run = await sh('head -c 5000000 /dev/zero | tr "\\0" a; echo end', {}, protocol).finished;
    expect(run.stdout.length).toBe(5_000_004);
    expect(run.stdout.subarray(0, 5_000_000).every((byte) => byte === 97)).toBe(true);
    expect(run.stdout.subarray(-4).toString()).toBe('end\n');
    expect(run.end).toMatchObject({ exitCode: 0, exited: true, status: 'exit status 0' });
    expect(run.end!.error).toBeUndefined();
  });

  test('errors are Connect errors', async () => {
    const run = await start({ process: { cmd: '/no/such' } }, protocol).finished;
    expect(run.error).toMatchObject({
      code: Code.NotFound,
      rawMessage: expect.stringContaining('no such file or directory'),
    });
  });
});

test('variables: image, sandbox and request, later over earlier, with HOME, USER and PATH', async () => {
  const run = await start({ process: { cmd: 'env', envs: { BOTH: 'request', OWN: 'ä=b' } } }).finished;
  const lines = run.stdout.toString().split('\n');
  for (const line of [
    'FROM_IMAGE=image',
    'FROM_SANDBOX=sandbox',
    'BOTH=request',
    'OWN=ä=b',
    'USER=root',
    'HOME=/root',
  ]) {
    expect(lines).toContain(line);
  }
  expect(lines.some((line) => line.startsWith('AGENT_') || line.startsWith('UV_'))).toBe(false);
});

test('the working directory is home, or the requested one', async () => {
  expect((await start({ process: { cmd: 'pwd' } }).finished).stdout.toString()).toBe('/root\n');
  expect((await start({ process: { cmd: 'pwd', cwd: '/usr' } }).finished).stdout.toString()).toBe('/usr\n');
  fs.writeFileSync(agent.path('script'), '#!/bin/sh\necho here\n', { mode: 0o755 });
  expect((await start({ process: { cmd: './script', cwd: agent.folder } }).finished).stdout.toString()).toBe('here\n');
});

test.each([
  ['a missing cwd', { cmd: 'true', cwd: '/no/such' }, Code.InvalidArgument, /cwd .*no such file or directory/],
  ['a cwd that is a file', { cmd: 'true', cwd: '/etc/passwd' }, Code.InvalidArgument, /cwd .*not a directory/],
  ['a command not in PATH', { cmd: 'no-such-command' }, Code.NotFound, /not found.*no such file or directory/],
  ['a file that may not be executed', { cmd: '/etc/passwd' }, Code.PermissionDenied, /permission denied/],
  ['a directory', { cmd: '/etc' }, Code.PermissionDenied, /permission denied/],
  ['no command', { cmd: '' }, Code.InvalidArgument, /cmd/],
  ['NUL in an argument', { cmd: 'true', args: ['a\0b'] }, Code.InvalidArgument, /NUL/],
  ['"=" in a variable name', { cmd: 'true', envs: { 'a=b': 'c' } }, Code.InvalidArgument, /envs/],
  [
    'a word longer than the kernel takes',
    { cmd: 'true', args: ['x'.repeat(200_000)] },
    Code.InvalidArgument,
    /too long/,
  ],
] as const)('%s is an error, and the agent goes on', async (_, process, code, text) => {
  const run = await start({ process }).finished;
  expect(run.error).toMatchObject({ code, rawMessage: expect.stringMatching(text) });
  expect((await sh('echo on').finished).stdout.toString()).toBe('on\n');
});

test('a script without #! is run by sh, with its arguments', async () => {
  fs.writeFileSync(agent.path('plain-script'), 'echo "$1"', { mode: 0o755 });
  const run = await start({ process: { cmd: agent.path('plain-script'), args: ['given'] } }).finished;
  expect(run.stdout.toString()).toBe('given\n');
});

test('processes begin with default signals, an empty mask, no stray descriptors, as leaders of their session', async () => {
  const run = await sh(
    'grep -E "^Sig(Blk|Ign)" /proc/self/status; ls /proc/self/fd | wc -l; ps -o pid=,sid=,pgid= -p $$ 2>/dev/null || true',
  ).finished;
  const [blocked, ignored, descriptors, ids] = run.stdout.toString().split('\n');
  expect(blocked).toMatch(/0{16}$/);
  expect(ignored).toMatch(/0{16}$/);
  // 0, 1, 2 and the directory that ls reads.
  expect(descriptors).toBe('4');
  if (ids) expect(new Set(ids.trim().split(/\s+/)).size).toBe(1);
});

test('/dev/stdout and /dev/stderr can be opened by the process', async () => {
  const run = await sh('echo a > /dev/stdout; echo b > /dev/stderr').finished;
  expect([run.stdout.toString(), run.stderr.toString()]).toEqual(['a\n', 'b\n']);
});

test('List shows running processes with config and tag, and no ended ones', async () => {
  const run = start({ process: { cmd: 'sleep', args: ['600'], envs: { A: 'b' }, cwd: '/usr' }, tag: 'listed' });
  const pid = await run.started();
  const { processes } = await agent.client(Process).list({});
  expect(processes.find((process) => process.pid === pid)).toMatchObject({
    pid,
    tag: 'listed',
    config: { cmd: 'sleep', args: ['600'], envs: { A: 'b' }, cwd: '/usr' },
  });
  await agent
    .client(Process)
    .sendSignal({ process: { selector: { case: 'tag', value: 'listed' } }, signal: Signal.SIGKILL });
  await run.finished;
  expect((await agent.client(Process).list({})).processes.some((process) => process.pid === pid)).toBe(false);
});

test('a signal reaches the whole group, and the end names it', async () => {
  const run = sh('sleep 600 & sleep 600');
  const pid = await run.started();
  await eventually(() => listGroup(pid).length >= 2);
  const members = listGroup(pid);
  await agent
    .client(Process)
    .sendSignal({ process: { selector: { case: 'pid', value: pid } }, signal: Signal.SIGTERM });
  expect((await run.finished).end).toMatchObject({
    exitCode: 143,
    exited: false,
    status: 'signal: terminated',
    error: 'signal: terminated',
  });
  await eventually(() => members.every((member) => !fs.existsSync(`/proc/${member}`)));
});

test('signals are refused for unknown processes and when not given', async () => {
  const client = agent.client(Process);
  const signal = (selector: object, number: number) =>
    client.sendSignal({ process: { selector } as never, signal: number });
  await expect(signal({ case: 'pid', value: 4_000_000 }, 9)).rejects.toMatchObject({
    code: Code.NotFound,
    rawMessage: expect.stringContaining('not found'),
  });
  await expect(signal({ case: 'tag', value: 'nobody' }, 9)).rejects.toMatchObject({ code: Code.NotFound });
  await expect(client.sendSignal({ signal: 9 })).rejects.toMatchObject({ code: Code.InvalidArgument });
  const run = sh('exec sleep 600');
  const pid = await run.started();
  // The shell catches a SIGINT, and forgets it if `sleep` takes its place in that moment.
  await eventually(() => fs.readFileSync(`/proc/${pid}/comm`, 'utf8') === 'sleep\n');
  await expect(signal({ case: 'pid', value: pid }, 0)).rejects.toMatchObject({ code: Code.InvalidArgument });
  await expect(signal({ case: 'pid', value: pid }, 99)).rejects.toMatchObject({ code: Code.InvalidArgument });
  await signal({ case: 'pid', value: pid }, 2);
  expect((await run.finished).end).toMatchObject({ exitCode: 130, exited: false });
});

test('a process continues when its client leaves, and Connect finds it by pid and tag with its output since', async () => {
  const first = sh('echo one; read line; echo two; read line; echo three; exit 5', { tag: 'kept' });
  const pid = await first.started();
  await eventually(() => first.stdout.toString() === 'one\n');
  await first.leave();
  const input = (text: string) =>
    agent.client(Process).sendInput({
      process: { selector: { case: 'pid', value: pid } },
      input: { input: { case: 'stdin', value: Buffer.from(text) } },
    });
  await input('\n');
  await eventually(() => waitsForInput(pid));

  const second = connect({ selector: { case: 'tag', value: 'kept' } });
  expect(await second.started()).toBe(pid);
  await eventually(() => second.stdout.toString() === 'two\n');
  await second.leave();
  await input('\n');
  await eventually(async () =>
    (await agent.client(Process).list({})).processes.every((process) => process.pid !== pid),
  );

  // It ended without a client. The first one gets its last output, and each one its end.
  const third = await connect({ selector: { case: 'pid', value: pid } }).finished;
  expect(third.stdout.toString()).toBe('three\n');
  expect(third.end).toMatchObject({ exitCode: 5 });
  const fourth = await connect({ selector: { case: 'pid', value: pid } }).finished;
  expect(fourth.cases).toEqual(['start', 'end']);
  expect(fourth.end).toMatchObject({ exitCode: 5 });
});

test('the end of a process is kept for those who ask later, by pid and tag, until 64 others have ended', async () => {
  const { pid } = await sh('echo seen; exit 6', { tag: 'kept' }).finished;
  for (const selector of [
    { case: 'pid', value: pid },
    { case: 'tag', value: 'kept' },
  ]) {
    const later = await connect({ selector }).finished;
    expect(later.cases).toEqual(['start', 'end']);
    expect(later.end).toMatchObject({ exitCode: 6 });
  }
  expect((await agent.post('Process/SendSignal', { process: { pid }, signal: 9 })).json.code).toBe('not_found');
  for (let others = 0; others < 64; others++) await start({ process: { cmd: 'true' } }).finished;
  expect((await connect({ selector: { case: 'pid', value: pid } }).finished).error).toMatchObject({
    code: Code.NotFound,
    rawMessage: expect.stringContaining('not found'),
  });
});

test('the agent keeps the newest 16 MiB of unread output of ended processes', async () => {
  const pids: number[] = [];
  for (let count = 0; count < 20; count++) {
    const run = sh('sleep 0.1; head -c 1048576 /dev/zero; exit 7');
    pids.push(await run.started());
    await run.leave();
    // One after the other, so that they end in this order.
    await eventually(async () => (await agent.post('Process/List', {})).json.processes.length === 0);
  }
  const found = await Promise.all(pids.map((value) => connect({ selector: { case: 'pid', value } }).finished));
  expect(found.map(({ error, stdout }) => (error ? 'gone' : stdout.length))).toEqual(
    pids.map((_, place) => (place < 4 ? 'gone' : 1048576)),
  );
});

test('two clients see the same output and the same end', async () => {
  const first = sh('read line; seq 20000; exit 1');
  const pid = await first.started();
  const second = connect({ selector: { case: 'pid', value: pid } });
  await second.started();
  await agent.client(Process).sendInput({
    process: { selector: { case: 'pid', value: pid } },
    input: { input: { case: 'stdin', value: Buffer.from('\n') } },
  });
  const [a, b] = await Promise.all([first.finished, second.finished]);
  expect(a.stdout.toString()).toBe(Array.from({ length: 20_000 }, (_, i) => `${i + 1}\n`).join(''));
  expect(b.stdout.equals(a.stdout)).toBe(true);
  expect([a.end!.exitCode, b.end!.exitCode]).toEqual([1, 1]);
});

test('output without a client is kept to its newest MiB, and does not stop the process', async () => {
  const run = sh('read line; head -c 10000000 /dev/zero | tr "\\0" x; echo last; read line');
  const pid = await run.started();
  await run.leave();
  const stdin = (text: string) =>
    agent.client(Process).sendInput({
      process: { selector: { case: 'pid', value: pid } },
      input: { input: { case: 'stdin', value: Buffer.from(text) } },
    });
  await stdin('go\n');
  await eventually(() => waitsForInput(pid));
  // When it answers, the agent has read the rest of the pipe.
  await agent.client(Process).list({});
  const again = connect({ selector: { case: 'pid', value: pid } });
  await again.started();
  await stdin('go\n');
  await again.finished;
  expect(again.stdout.length).toBe(1024 * 1024);
  expect(again.stdout.subarray(-6).toString()).toBe('xlast\n');
});

test.each([
  ['long', 100_000_000, 'head -c 100000000 /dev/zero'],
  ['short', 20_000_000, 'dd if=/dev/zero bs=1000 count=20000 status=none'],
])(
  'a slow reader slows a writer of %s pieces, memory stays flat, and nothing is lost',
  async (_, bytes, command) => {
    const before = agent.privateMib();
    const written = agent.path('written');
    fs.rmSync(written, { force: true });
    const request = { process: { cmd: '/bin/sh', args: ['-c', `${command}; echo done > ${written}`] } };
    const body = Buffer.from(JSON.stringify(request));
    const frame = Buffer.alloc(5);
    frame.writeUInt32BE(body.length, 1);
    const socket = net.connect(agent.port, '127.0.0.1').pause();
    const lines = Object.entries(
      headers({ host: 'x', 'content-type': 'application/connect+json', 'content-length': `${5 + body.length}` }),
    );
    socket.write(
      `POST /sandboxagent.Process/Start HTTP/1.1\r\n${lines.map(([name, value]) => `${name}: ${value}\r\n`).join('')}\r\n`,
    );
    socket.write(Buffer.concat([frame, body]));
    // The writer fills the buffers in between, and then blocks.
    const pid = await eventually(
      async () =>
        (await agent.client(Process).list({})).processes.find(({ config }) => config!.args[1]?.includes(written))?.pid,
    );
    await eventually(() => listGroup(pid).some((member) => readWchan(member).includes('pipe')));
    expect(fs.existsSync(written)).toBe(false);
    let most = agent.privateMib();
    const sampling = setInterval(() => {
      most = Math.max(most, agent.privateMib());
    }, 50);
    let received = 0;
    socket.on('data', (chunk) => {
      received += chunk.length;
    });
    socket.resume();
    await eventually(() => fs.existsSync(written) && received > (bytes * 4) / 3);
    clearInterval(sampling);
    socket.destroy();
    expect(most - before).toBeLessThan(60);
  },
  300_000,
);

test('lines that come one by one reach every client whole and in order', async () => {
  const run = sh('read go; i=0; while [ $i -lt 3000 ]; do echo line $i; i=$((i+1)); done');
  const pid = await run.started();
  const other = connect({ selector: { case: 'pid', value: pid } });
  await other.started();
  await agent.client(Process).sendInput({
    process: { selector: { case: 'pid', value: pid } },
    input: { input: { case: 'stdin', value: Buffer.from('go\n') } },
  });
  const lines = Array.from({ length: 3000 }, (_, i) => `line ${i}\n`).join('');
  expect((await run.finished).stdout.toString()).toBe(lines);
  expect((await other.finished).stdout.toString()).toBe(lines);
});

test('a process in the background stays listed, streams its output, and ends with its leader’s code when killed', async () => {
  const go = agent.path('go');
  const run = sh(`(while ! [ -e ${go} ]; do sleep 0.02; done; echo late; sleep 600) & exit 4`);
  const pid = await run.started();
  await eventually(() => !fs.existsSync(`/proc/${pid}`));
  const listed = async () => (await agent.client(Process).list({})).processes.some((process) => process.pid === pid);
  expect(await listed()).toBe(true);
  const follower = connect({ selector: { case: 'pid', value: pid } });
  expect(await follower.started()).toBe(pid);
  fs.writeFileSync(go, '');
  await eventually(() => follower.stdout.toString() === 'late\n' && run.stdout.toString() === 'late\n');
  await agent.client(Process).sendSignal({
    process: { selector: { case: 'pid', value: pid } },
    signal: Signal.SIGKILL,
  });
  expect((await run.finished).end).toMatchObject({ exitCode: 4, exited: true });
  expect((await follower.finished).end).toMatchObject({ exitCode: 4 });
  expect(await listed()).toBe(false);
});

test.each(['sleep 600', 'yes'])(
  'with Process-Ends-With: leader, the end does not wait for a background %s, which lives on',
  async (job) => {
    const run = await start(
      { process: { cmd: 'sh', args: ['-c', `${job} & echo $!; seq 100000; exit 4`] } },
      'connect+json',
      { 'process-ends-with': 'leader' },
    ).finished;
    expect(run.end).toMatchObject({ exitCode: 4 });
    const jobPid = Number(run.stdout.toString('latin1', 0, 20).match(/\d+/)![0]);
    expect(run.stdout.includes('\n100000\n')).toBe(true);
    expect(fs.existsSync(`/proc/${jobPid}`)).toBe(true);
    process.kill(jobPid, 'SIGKILL');
  },
);

test('the end of a process whose daemon writes all the time comes nevertheless', async () => {
  const run = await sh('setsid yes & echo $! >&2; sleep 0.1; exit 3').finished;
  expect(run.end).toMatchObject({ exitCode: 3 });
  const daemon = Number(run.stderr.toString());
  expect(fs.existsSync(`/proc/${daemon}`)).toBe(true);
  process.kill(daemon, 'SIGKILL');
});

test('another value of Process-Ends-With is refused', async () => {
  const run = await start({ process: { cmd: 'true' } }, 'connect+json', { 'process-ends-with': 'never' }).finished;
  expect(run.error).toMatchObject({ code: Code.InvalidArgument });
});

test('CloseStdin ends the input after everything that was written, and a second one succeeds', async () => {
  const run = start({ process: { cmd: 'sh', args: ['-c', 'sleep 0.1; wc -c'] } });
  const process = { pid: await run.started() };
  const stdin = Buffer.alloc(1_000_000, 'a').toString('base64');
  const written = agent.post('Process/SendInput', { process, input: { stdin } });
  await eventually(async () => (await agent.post('Process/List', {})).status === 200);
  const closed = await Promise.all([1, 2].map(() => agent.post('Process/CloseStdin', { process })));
  expect(closed.map(({ status }) => status)).toEqual([200, 200]);
  expect((await written).status).toBe(200);
  expect((await run.finished).stdout.toString().trim()).toBe('1000000');
});

test('input after CloseStdin is refused, and so is CloseStdin for a terminal and an unknown process', async () => {
  const run = sh('exec sleep 600');
  const process = { pid: await run.started() };
  expect((await agent.post('Process/CloseStdin', { process })).json).toEqual({});
  const refused = await agent.post('Process/SendInput', { process, input: { stdin: 'YQ==' } });
  expect(refused.json.code).toBe('failed_precondition');
  const terminal = sh('exec sleep 600', { pty: {} });
  const onTerminal = { pid: await terminal.started() };
  expect((await agent.post('Process/CloseStdin', { process: onTerminal })).json.code).toBe('failed_precondition');
  for (const { pid } of [process, onTerminal]) await agent.post('Process/SendSignal', { process: { pid }, signal: 9 });
  await Promise.all([run.finished, terminal.finished]);
  const unknown = await agent.post('Process/CloseStdin', { process: { pid: 999_999 } });
  expect(unknown.json.code).toBe('not_found');
});

const as = (user: string) => ({ authorization: `Basic ${Buffer.from(`${user}:`).toString('base64')}` });

test.each(['nobody', '65534'])(
  'a process of user %s has its ids, variables and home, and one terminal that is its own',
  async (user) => {
    const script = "id -u; id -g; echo $USER $LOGNAME $HOME; pwd; awk '/^Groups/' /proc/self/status; exit 3";
    const run = await start({ process: { cmd: 'sh', args: ['-c', script], cwd: '/' } }, 'connect+json', as(user))
      .finished;
    expect(
      run.stdout
        .toString()
        .split('\n')
        .map((line) => line.trim()),
    ).toEqual(['65534', '65534', 'nobody nobody /nonexistent', '/', 'Groups:', '']);
    expect(run.end).toMatchObject({ exitCode: 3 });
    const onTerminal = await start(
      { process: { cmd: 'sh', args: ['-c', 'id -u >/dev/tty; test -w $(tty) && exit 5'], cwd: '/' }, pty: {} },
      'connect+json',
      as(user),
    ).finished;
    expect(onTerminal.end).toMatchObject({ exitCode: 5 });
  },
);

test('a process of another user reads input and is killed like others, and its user must exist', async () => {
  const run = start({ process: { cmd: 'cat', cwd: '/' } }, 'connect+json', as('nobody'));
  const process = { pid: await run.started() };
  await agent.post('Process/SendInput', { process, input: { stdin: Buffer.from('typed').toString('base64') } });
  await eventually(() => run.stdout.toString() === 'typed');
  await agent.post('Process/SendSignal', { process, signal: 'SIGNAL_SIGKILL' });
  expect((await run.finished).end).toMatchObject({ exitCode: 137, exited: false });
  const unknown = await start({ process: { cmd: 'true' } }, 'connect+json', as('no-such-user')).finished;
  expect(unknown.error).toMatchObject({ code: Code.InvalidArgument, rawMessage: 'unknown user no-such-user' });
  const missing = await start({ process: { cmd: 'no-such-command', cwd: '/' } }, 'connect+json', as('nobody')).finished;
  expect(missing.error).toMatchObject({ code: Code.NotFound });
});

test.each([
  ['a pipe', 'mkfifo "$f"'],
  ['a list with malformed ids', 'echo "broken:x:abc:-1::/:" > "$f"'],
])('an agent whose /etc/passwd is %s starts, and processes run as users by number', async (_, make) => {
  const hide = `f=$(mktemp -u) && ${make} && mount --bind "$f" /etc/passwd && rm "$f" && exec "$@"`;
  const own = await TestAgent.start({ through: ['unshare', '--mount', 'sh', '-c', hide, 'sh'] });
  try {
    const run = async (user: string) => {
      const client = own.client(Process, 'connect+json', as(user));
      const request = { process: { cmd: 'id', args: ['-u'], cwd: '/' } };
      return new Run((signal) => client.start(request, { signal })).finished;
    };
    expect((await run('65534')).stdout.toString()).toBe('65534\n');
    for (const user of ['nobody', 'broken'])
      expect((await run(user)).error).toMatchObject({ code: Code.InvalidArgument });
  } finally {
    await own.stop();
  }
});

test('a daemon in another session does not delay the end, and survives', async () => {
  const run = await sh("setsid sh -c 'echo $$; exec sleep 600' &").finished;
  expect(run.end).toMatchObject({ exitCode: 0 });
  const daemon = Number(run.stdout.toString());
  expect(fs.existsSync(`/proc/${daemon}`)).toBe(true);
  process.kill(daemon, 'SIGKILL');
});

test('a silent process sends keepalives at the requested interval, and a wrong interval is an error', async () => {
  const run = start({ process: { cmd: 'sleep', args: ['600'] } }, 'connect+json', {
    'keepalive-ping-interval': '0.05',
  });
  await eventually(() => run.cases.filter((name) => name === 'keepalive').length >= 2);
  await run.leave();
  process.kill(-run.pid, 'SIGKILL');
  const wrong = await start({ process: { cmd: 'true' } }, 'connect+json', { 'keepalive-ping-interval': 'soon' })
    .finished;
  expect(wrong.error).toMatchObject({ code: Code.InvalidArgument });
});

test('a deadline ends the stream, not the process', async () => {
  let pid = 0;
  // On a busy machine the deadline may come before the start.
  for (let timeoutMs = 2000; pid === 0; timeoutMs *= 2) {
    const run = new Run((signal) =>
      agent.client(Process).start({ process: { cmd: 'sleep', args: ['600'] } }, { signal, timeoutMs }),
    );
    await run.finished;
    expect(run.error).toMatchObject({ code: Code.DeadlineExceeded });
    pid = run.pid;
  }
  expect(fs.existsSync(`/proc/${pid}`)).toBe(true);
  process.kill(-pid, 'SIGKILL');
});

test('200 processes at once all end with their own output', async () => {
  const runs = await Promise.all(Array.from({ length: 200 }, (_, i) => sh(`echo ${i}; exit ${i % 7}`).finished));
  expect(runs.map(({ stdout }) => stdout.toString())).toEqual(runs.map((_, i) => `${i}\n`));
  expect(runs.map(({ end }) => end!.exitCode)).toEqual(runs.map((_, i) => i % 7));
  expect(
    (await agent.client(Process).list({})).processes.filter(({ config }) => config!.args[1]?.startsWith('echo')),
  ).toEqual([]);
}, 300_000);

test('ended processes leave no descriptor and no zombie behind', async () => {
  const descriptors = () =>
    fs.readdirSync(`/proc/${agent.process.pid}/fd`).filter((fd) => readLink(fd).startsWith('pipe:')).length;
  await sh('true').finished;
  const before = descriptors();
  for (let i = 0; i < 20; i++) {
    const run = sh('cat');
    await run.started();
    await run.leave();
  }
  for (let i = 0; i < 20; i++) await sh('echo; exit 1').finished;
  const { processes } = await agent.client(Process).list({});
  for (const { pid } of processes) process.kill(-pid, 'SIGKILL');
  await eventually(() => descriptors() <= before);
  const children = () =>
    readIfThere(`/proc/${agent.process.pid}/task/${agent.process.pid}/children`).split(' ').filter(Boolean);
  // The last ones may have ended just now.
  const noZombie = () => !children().some((child) => / Z /.test(readIfThere(`/proc/${child}/stat`)));
  expect(await eventually(noZombie)).toBe(true);
});

function readLink(fd: string): string {
  try {
    return fs.readlinkSync(`/proc/${agent.process.pid}/fd/${fd}`);
  } catch {
    return '';
  }
}

/** Pids of a process group. */
function listGroup(group: number): number[] {
  return findProcesses((pid) => {
    const fields = fs.readFileSync(`/proc/${pid}/stat`, 'latin1').split(') ')[1]!.split(' ');
    return Number(fields[2]) === group && fields[0] !== 'Z';
  });
}

/** Whether a process waits in a read of its pipe. */
function waitsForInput(pid: number): boolean {
  return readWchan(pid).includes('pipe_read') && listGroup(pid).length === 1;
}

/** The kernel function in which a process sleeps; '' when it has ended. */
function readWchan(pid: number): string {
  try {
    return fs.readFileSync(`/proc/${pid}/wchan`, 'latin1');
  } catch {
    return '';
  }
}

test('processes and their children are killed before the agent when memory runs out', async () => {
  // Children that begin one after the other, so that a score is often raised in the middle of a fork.
  const forks = 'for n in 1 2 3 4 5 6 7 8; do sleep 600 & echo $!; done; wait';
  const run = new Run((signal) =>
    agent.client(Process).start({ process: { cmd: 'sh', args: ['-c', forks] } }, { signal }),
  );
  const children = await eventually(() => {
    const lines = run.stdout.toString().match(/^\d+$/gm) ?? [];
    return lines.length === 8 ? lines.map(Number) : null;
  });
  const readScore = (pid: number) => Number(fs.readFileSync(`/proc/${pid}/oom_score_adj`, 'utf8'));
  await eventually(() => [run.pid, ...children].every((pid) => readScore(pid) === 1000));
  expect(readScore(agent.process.pid!)).toBe(readScore(process.pid));
  process.kill(-run.pid, 'SIGKILL');
  await run.finished;
});
