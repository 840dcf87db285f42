import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { Code, ConnectError } from '@connectrpc/connect';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { Process, Signal, StreamInputRequestSchema } from '../../agent/proto/gen/sandboxagent_pb.js';
import { eventually, type Protocol, TestAgent } from './support/agent.ts';

let agent: TestAgent;
beforeAll(async () => {
  agent = await TestAgent.start();
});
afterAll(() => agent.stop());

/** A process whose output is collected. */
async function started(script: string, tag?: string) {
  const run = {
    pid: 0,
    stdout: Buffer.alloc(0),
    exitCode: undefined as number | undefined,
    finished: Promise.resolve(),
  };
  const stream = agent
    .client(Process, 'connect+proto')
    .start({ process: { cmd: '/bin/sh', args: ['-c', script] }, tag });
  run.finished = (async () => {
    for await (const { event } of stream) {
      const current = event!.event;
      if (current.case === 'start') run.pid = current.value.pid;
      if (current.case === 'data') run.stdout = Buffer.concat([run.stdout, current.value.output.value!]);
      if (current.case === 'end') run.exitCode = current.value.exitCode;
    }
  })();
  await eventually(() => run.pid);
  return run;
}

const byPid = (pid: number) => ({ selector: { case: 'pid' as const, value: pid } });
type InputEvent = NonNullable<MessageInitShape<typeof StreamInputRequestSchema>['event']>;
const stdin = (bytes: Uint8Array): InputEvent => ({
  case: 'data',
  value: { input: { input: { case: 'stdin', value: bytes } } },
});

async function* messages(events: Iterable<InputEvent> | AsyncIterable<InputEvent>) {
  for await (const event of events) yield create(StreamInputRequestSchema, { event });
}

const streamInput = (events: Iterable<InputEvent> | AsyncIterable<InputEvent>, protocol: Protocol = 'connect+json') =>
  agent.client(Process, protocol).streamInput(messages(events));

test('SendInput takes every JSON form of a pid, a tag and bytes, and refuses what is none', async () => {
  const tag = 'every-form';
  const run = await started('head -c 10', tag);
  const { pid } = run;
  const send = (message: object) => agent.post('Process/SendInput', message);
  for (const [process, input] of [
    [{ pid }, { stdin: 'YQ==' }],
    [{ pid: `${pid}` }, { stdin: 'Yg' }],
    [{ tag }, { stdin: 'Yz8_' }],
    [{ pid }, { stdin: 'ZC1f' }],
    [
      { pid, later: 1 },
      { stdin: 'ZQ==', later: 2 },
    ],
    [{ pid }, { stdin: '' }],
  ]) {
    expect(await send({ process, input, later: 3 })).toEqual({ status: 200, json: {} });
  }
  for (const message of [
    { process: { pid }, input: { stdin: '?' } },
    { process: { pid, tag }, input: { stdin: 'YQ==' } },
    { process: { pid: 1.5 }, input: { stdin: 'YQ==' } },
    { process: { pid: -1 }, input: { stdin: 'YQ==' } },
    { process: { pid }, input: { stdin: 'YQ==', pty: 'YQ==' } },
    { process: { pid }, input: {} },
    { process: { pid } },
  ]) {
    expect(await send(message)).toMatchObject({ status: 400, json: { code: 'invalid_argument' } });
  }
  expect(await send({ process: { pid }, input: { stdin: Buffer.from('!').toString('base64') } })).toMatchObject({
    status: 200,
  });
  await run.finished;
  expect(run.stdout.toString()).toBe('abc??d-_e!');
});

describe.each(['connect+json', 'connect+proto', 'grpc'] as const)('over %s', (protocol) => {
  test('SendInput reaches the process byte for byte', async () => {
    const run = await started('head -c 256 | od -An -tu1 -v | tr -s " \\n" " "');
    const bytes = Uint8Array.from({ length: 256 }, (_, i) => i);
    await agent
      .client(Process, protocol)
      .sendInput({ process: byPid(run.pid), input: { input: { case: 'stdin', value: bytes } } });
    await run.finished;
    expect(run.stdout.toString().trim()).toBe([...bytes].join(' '));
  });

  test('StreamInput reaches the process in order, with keepalives between', async () => {
    const total = 3_000_000;
    const run = await started(`head -c ${total} | md5sum`);
    const events: InputEvent[] = [{ case: 'start', value: { process: byPid(run.pid) } }];
    for (let at = 0; at < total; at += 100_000) {
      events.push(stdin(Buffer.alloc(100_000, at / 100_000)), { case: 'keepalive', value: {} });
    }
    await streamInput(events, protocol);
    await run.finished;
    // The digest of md5sum for the same bytes.
    const { createHash } = await import('node:crypto');
    const expected = createHash('md5');
    for (let at = 0; at < total; at += 100_000) expected.update(Buffer.alloc(100_000, at / 100_000));
    expect(run.stdout.toString()).toBe(`${expected.digest('hex')}  -\n`);
  });
});

test('StreamInput by tag', async () => {
  const run = await started('read line; echo "got $line"', 'listener');
  await streamInput([
    { case: 'start', value: { process: { selector: { case: 'tag', value: 'listener' } } } },
    stdin(Buffer.from('this\n')),
  ]);
  await run.finished;
  expect(run.stdout.toString()).toBe('got this\n');
});

test('a process that does not read delays the client that streams to it, and memory stays flat', async () => {
  const run = await started('sleep 600');
  const before = agent.privateMib();
  let offered = 0;
  async function* endless(): AsyncGenerator<InputEvent> {
    yield { case: 'start', value: { process: byPid(run.pid) } };
    for (; ; offered += 1) yield stdin(Buffer.alloc(64 * 1024));
  }
  const streaming = streamInput(endless()).catch((error) => ConnectError.from(error));
  let last = -1;
  // Writes stop when all buffers between the client and the process are full.
  await eventually(async () => {
    if (offered > 0 && offered === last) return true;
    last = offered;
    await new Promise((resolve) => setTimeout(resolve, 200));
    return false;
  });
  expect(offered * 64).toBeLessThan(32 * 1024);
  expect(agent.privateMib() - before).toBeLessThan(30);
  await agent.client(Process).sendSignal({ process: byPid(run.pid), signal: Signal.SIGKILL });
  expect(await streaming).toMatchObject({ code: Code.FailedPrecondition });
  await run.finished;
});

test('input to a process that has closed it, or is unknown, or of the wrong kind, is an error', async () => {
  const client = agent.client(Process);
  const run = await started('exec <&-; echo closed; sleep 600');
  await eventually(() => run.stdout.length > 0);
  const input = { input: { case: 'stdin' as const, value: Buffer.from('x') } };
  await expect(client.sendInput({ process: byPid(run.pid), input })).rejects.toMatchObject({
    code: Code.FailedPrecondition,
  });
  await expect(
    client.sendInput({ process: byPid(run.pid), input: { input: { case: 'pty', value: Buffer.from('x') } } }),
  ).rejects.toMatchObject({
    code: Code.FailedPrecondition,
  });
  await expect(client.sendInput({ process: byPid(run.pid) })).rejects.toMatchObject({ code: Code.InvalidArgument });
  await expect(client.sendInput({ process: byPid(4_000_000), input })).rejects.toMatchObject({ code: Code.NotFound });
  await expect(client.update({ process: byPid(run.pid), pty: { size: { cols: 1, rows: 1 } } })).rejects.toMatchObject({
    code: Code.FailedPrecondition,
  });
  await client.sendSignal({ process: byPid(run.pid), signal: Signal.SIGKILL });
  await run.finished;
});

test('StreamInput without a start, or to an unknown process, is an error', async () => {
  await expect(streamInput([stdin(Buffer.from('x'))])).rejects.toMatchObject({ code: Code.InvalidArgument });
  await expect(streamInput([{ case: 'start', value: { process: byPid(4_000_000) } }])).rejects.toMatchObject({
    code: Code.NotFound,
  });
  await expect(streamInput([{ case: 'start', value: {} }])).rejects.toMatchObject({ code: Code.InvalidArgument });
  await expect(streamInput([])).resolves.toBeDefined();
});
