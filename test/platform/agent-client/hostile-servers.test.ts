import { once } from 'node:events';
import net from 'node:net';
import { gzipSync } from 'node:zlib';
import { expect, test } from '@jest/globals';
import { SandboxAgents } from '../../../api/routes/sandboxes/exec/agents.ts';
import {
  type AgentEndpoint,
  callAgent,
  callAgentForStream,
  exchange,
  fetchStatus,
  SandboxStream,
  UnusableReply,
} from '../../../platform/agent-client/sandbox-exchange.ts';
import { until } from '../../support/until.ts';
import { HostileServer } from './hostile-server.ts';

type Answer = (socket: net.Socket, server: HostileServer) => void;

const deadlineMs = 200;
/** Far longer than the deadline, for busy machines. */
const hangMs = 60_000;
const maxReplyBytes = 64 * 1024;

const say =
  (text: string | Buffer): Answer =>
  (socket) =>
    socket.write(text);
const sayAndEnd =
  (text: string | Buffer): Answer =>
  (socket) =>
    socket.end(text);
const head = (text: string) => `HTTP/1.1 ${text}\r\n\r\n`;
const sized = (body: string | Buffer, more = '') =>
  Buffer.concat([Buffer.from(`HTTP/1.1 200 OK\r\n${more}Content-Length: ${body.length}\r\n\r\n`), Buffer.from(body)]);
const chunked = 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n';

/** Answers that root in a sandbox may send in place of the agent. None of them is usable. */
const hostileAnswers: [what: string, answer: Answer][] = [
  ['nothing', () => {}],
  ['an end without a reply', (socket) => socket.end()],
  ['a reset', (socket) => socket.resetAndDestroy()],
  [
    'a reset in the middle of the head',
    (socket) => socket.write('HTTP/1.1 200 OK\r\n', () => socket.resetAndDestroy()),
  ],
  [
    'a reset in the middle of the body',
    (socket) => socket.write('HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{', () => socket.resetAndDestroy()),
  ],
  ['101 with an upgrade', say(head('101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket'))],
  ['101 without an upgrade', say(head('101 Switching Protocols'))],
  [
    '101 and then bytes without end',
    (socket, server) => {
      socket.write(head('101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x'));
      server.repeat(socket, Buffer.alloc(65_536));
    },
  ],
  ['200 with an upgrade', say(head('200 OK\r\nConnection: Upgrade\r\nUpgrade: websocket'))],
  ['100 without end', (socket, server) => server.repeat(socket, head('100 Continue').repeat(1000))],
  ['100, one at a time', (socket, server) => server.repeat(socket, head('100 Continue'), 20)],
  ['102 without end', (socket, server) => server.repeat(socket, head('102 Processing'))],
  [
    '103 with headers without end',
    (socket, server) => server.repeat(socket, head(`103 Early Hints\r\nLink: ${'x'.repeat(8000)}`)),
  ],
  ['199 without end', (socket, server) => server.repeat(socket, head('199 Odd'))],
  ['one 100 and nothing more', say(head('100 Continue'))],
  ['the status 000', say(head('000 OK'))],
  ['the status 099', say(head('099 OK\r\nContent-Length: 0'))],
  ['the status 600', say(head('600 OK\r\nContent-Length: 0'))],
  ['the status 999', say(head('999 OK\r\nContent-Length: 0'))],
  ['a status of four digits', say(head('2000 OK\r\nContent-Length: 0'))],
  [
    'headers without end',
    (socket, server) => {
      socket.write('HTTP/1.1 200 OK\r\n');
      server.repeat(socket, 'X-Header: value\r\n'.repeat(100));
    },
  ],
  [
    'one header without end',
    (socket, server) => {
      socket.write('HTTP/1.1 200 OK\r\nX-Header: ');
      server.repeat(socket, 'x'.repeat(65_536));
    },
  ],
  [
    'a status line without end',
    (socket, server) => {
      socket.write('HTTP/1.1 200 ');
      server.repeat(socket, 'x'.repeat(65_536));
    },
  ],
  [
    'one byte of the head at a time',
    (socket, server) => {
      socket.write('HTTP/1.1 200 OK\r\n');
      server.repeat(socket, 'x', 50);
    },
  ],
  [
    'one byte of the body at a time',
    (socket, server) => {
      socket.write('HTTP/1.1 200 OK\r\nContent-Length: 60000\r\n\r\n');
      server.repeat(socket, ' ', 50);
    },
  ],
  ['a body that does not come', say('HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n')],
  ['a body that ends early', sayAndEnd('HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{}')],
  [
    'a body of unknown length without end',
    (socket, server) => {
      socket.write('HTTP/1.1 200 OK\r\n\r\n');
      server.repeat(socket, ' '.repeat(65_536));
    },
  ],
  [
    'a length of a terabyte',
    (socket, server) => {
      socket.write('HTTP/1.1 200 OK\r\nContent-Length: 1099511627776\r\n\r\n');
      server.repeat(socket, ' '.repeat(65_536));
    },
  ],
  [
    'chunks without end',
    (socket, server) => {
      socket.write(chunked);
      server.repeat(socket, '1\r\n \r\n'.repeat(10_000));
    },
  ],
  [
    'empty lines between chunks',
    (socket, server) => {
      socket.write(chunked);
      server.repeat(socket, '\r\n'.repeat(10_000));
    },
  ],
  [
    'a chunk extension without end',
    (socket, server) => {
      socket.write(`${chunked}1;`);
      server.repeat(socket, 'x'.repeat(65_536));
    },
  ],
  [
    'small chunks with large extensions',
    (socket, server) => {
      socket.write(chunked);
      server.repeat(socket, `1;${'x'.repeat(4000)}\r\n \r\n`);
    },
  ],
  [
    'trailers without end',
    (socket, server) => {
      socket.write(`${chunked}2\r\n{}\r\n0\r\n`);
      server.repeat(socket, 'X-Trailer: value\r\n'.repeat(100));
    },
  ],
  ['a chunk whose size is no number', say(`${chunked}zz\r\n{}\r\n0\r\n\r\n`)],
  ['a chunk of 2^64 bytes', say(`${chunked}10000000000000000\r\n{}`)],
  ['chunks that do not end', say(`${chunked}2\r\n{}\r\n`)],
  ['two lengths', say('HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{} ')],
  ['two lengths that agree', say('HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\n{}')],
  [
    'a length and chunks',
    say('HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n'),
  ],
  ['a negative length', say('HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\n{}')],
  ['a length that is no number', say('HTTP/1.1 200 OK\r\nContent-Length: two\r\n\r\n{}')],
  [
    'chunks that are not the last coding',
    say('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, gzip\r\n\r\n2\r\n{}\r\n0\r\n\r\n'),
  ],
  ['a folded header', say('HTTP/1.1 200 OK\r\nX-A: a\r\n b\r\nContent-Length: 2\r\n\r\n{}')],
  ['a NUL in a header', say('HTTP/1.1 200 OK\r\nX-A: \0\r\nContent-Length: 2\r\n\r\n{}')],
  ['HTTP/0.9', sayAndEnd('{}')],
  ['HTTP/0.9 in the new form', sayAndEnd('HTTP/0.9 200 OK\r\n\r\n{}')],
  ['HTTP/2', sayAndEnd(Buffer.from('000012040000000000000300000064000400100000000600004000', 'hex'))],
  ['HTTP/3.0 in words', sayAndEnd('HTTP/3.0 200 OK\r\nContent-Length: 2\r\n\r\n{}')],
  ['TLS', sayAndEnd(Buffer.from('160303007a0200007603030000', 'hex'))],
  ['SSH', say('SSH-2.0-OpenSSH_9.2\r\n')],
  ['a redirect', say('HTTP/1.1 302 Found\r\nLocation: http://169.254.169.254/\r\nContent-Length: 2\r\n\r\n<>')],
  ['no JSON', say(sized('<html></html>'))],
  ['JSON larger than a reply may be', say(sized(JSON.stringify('x'.repeat(2 * maxReplyBytes))))],
  ['JSON of 30,000 levels', say(sized('['.repeat(30_000) + ']'.repeat(30_000)))],
  ['a JSON number of 60,000 digits', say(sized(`{"a":${'9'.repeat(60_000)}}`))],
  ['JSON of nine levels', say(sized('['.repeat(9) + ']'.repeat(9)))],
  ['JSON of 30,000 values', say(sized(`[${'0,'.repeat(30_000)}0]`))],
  ['JSON of 5,000 keys', say(sized(`{${Array.from({ length: 5000 }, (_, at) => `"k${at}":0`).join()}}`))],
  ['half a JSON string', say(sized('"\\'))],
  ['a gzip bomb', say(sized(gzipSync(Buffer.alloc(10 * 1024 * 1024, ' ')), 'Content-Encoding: gzip\r\n'))],
];

async function against<T>(answer: Answer, act: (agent: AgentEndpoint) => Promise<T>): Promise<T> {
  const server = await HostileServer.start(answer);
  try {
    return await act({ address: '127.0.0.1', port: server.port, platformToken: 'token' });
  } finally {
    // The client has closed all of its connections.
    const isClosed = await until(() => server.open === 0, 60_000).then(
      () => true,
      () => false,
    );
    await server.stop();
    expect(isClosed).toBe(true);
  }
}

const call = { method: 'GET', path: '/platform/state', deadlineMs, maxReplyBytes };
/** For usable replies, which the deadline must not affect. */
const patientCall = { ...call, deadlineMs: hangMs };

test.each(hostileAnswers)('%s: the call ends in an error in time, and leaves no socket', async (_what, answer) => {
  const started = performance.now();
  const outcome = await against(answer, (agent) => callAgent(agent, call).catch((error) => error));
  expect(performance.now() - started).toBeLessThan(hangMs);
  // A redirect is a reply and is not followed. Its body is not JSON.
  expect(outcome).toBeInstanceOf(UnusableReply);
});

test.each(hostileAnswers)('%s: an abort rejects the call in every state of the socket', async (_what, answer) => {
  const reason = new Error('aborted by the test');
  const outcome = await against(answer, async (agent) => {
    const stop = new AbortController();
    const calling = callAgent(agent, { ...call, deadlineMs: 60_000, signal: stop.signal }).catch((error) => error);
    const timer = setTimeout(() => stop.abort(reason), 50);
    const error = await calling;
    clearTimeout(timer);
    return error;
  });
  expect(outcome === reason || outcome instanceof UnusableReply).toBe(true);
});

test.each(hostileAnswers)('%s: no stream hangs, and none is left open', async (_what, answer) => {
  const started = performance.now();
  await against(answer, async (agent) => {
    const reply = await callAgentForStream(agent, call).catch((error) => error);
    if (!(reply instanceof SandboxStream)) return expect(reply).toBeInstanceOf(UnusableReply);
    // It began like a stream. The rest ends on its own or with its reader.
    const timer = setTimeout(() => reply.destroy(), deadlineMs);
    let bytes = 0;
    try {
      for await (const chunk of reply) {
        bytes += chunk.length;
        if (bytes > 1024 * 1024) break;
      }
    } catch (error) {
      expect(error).toBeInstanceOf(UnusableReply);
    }
    clearTimeout(timer);
  });
  expect(performance.now() - started).toBeLessThan(hangMs);
});

test.each(hostileAnswers)(
  '%s: a probe for the status alone ends in time, and leaves no socket',
  async (_what, answer) => {
    const started = performance.now();
    await against(answer, async ({ address, port }) => {
      const status = await fetchStatus({ address, port, method: 'GET', path: '/', deadlineMs }).catch((error) => error);
      if (typeof status !== 'number') expect(status).toBeInstanceOf(UnusableReply);
    });
    expect(performance.now() - started).toBeLessThan(hangMs);
  },
);

test('a server that accepts no connection: deadline and abort end the call', async () => {
  // Its backlog is full, so the kernel does not answer further connects.
  const server = net.createServer().listen({ port: 0, host: '127.0.0.1', backlog: 1 });
  await once(server, 'listening');
  const { port } = server.address() as net.AddressInfo;
  // Addresses for documentation do not answer, or a machine without a route refuses them immediately.
  const nowhere = { address: '192.0.2.1', port, platformToken: 'token' };
  await expect(callAgent(nowhere, call)).rejects.toThrow(UnusableReply);
  const signal = AbortSignal.timeout(100);
  const outcome = await callAgent(nowhere, { ...call, deadlineMs: 60_000, signal }).catch((error) => error);
  expect(outcome === signal.reason || outcome instanceof UnusableReply).toBe(true);
  server.close();
});

test('with an aborted signal no connection is opened', async () => {
  let connections = 0;
  const server = net.createServer(() => {
    connections += 1;
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as net.AddressInfo;
  const agent = { address: '127.0.0.1', port, platformToken: 'token' };
  const signal = AbortSignal.abort(new Error('before'));
  await expect(callAgent(agent, { ...call, signal })).rejects.toThrow('before');
  server.close();
  await once(server, 'close');
  expect(connections).toBe(0);
});

test('a path that is invalid in HTTP is an error of the client, not another exception', async () => {
  const request = { address: '127.0.0.1', port: 1, method: 'GET', path: '/a\r\nb', deadlineMs };
  await expect(fetchStatus(request)).rejects.toThrow(UnusableReply);
});

test('usable replies are read: by length, in chunks, to the end, after a 100', async () => {
  const ok = (answer: Answer) => against(answer, (agent) => callAgent(agent, patientCall));
  const reply = { status: 200, json: { a: [1] } };
  await expect(ok(say(sized('{"a":[1]}')))).resolves.toEqual(reply);
  await expect(ok(say(`${chunked}4\r\n{"a"\r\n5\r\n:[1]}\r\n0\r\n\r\n`))).resolves.toEqual(reply);
  await expect(ok(sayAndEnd('HTTP/1.1 200 OK\r\n\r\n{"a":[1]}'))).resolves.toEqual(reply);
  await expect(ok(say(Buffer.concat([Buffer.from(head('100 Continue')), sized('{"a":[1]}')])))).resolves.toEqual(reply);
  await expect(ok(say(head('204 No Content')))).resolves.toEqual({ status: 204, json: undefined });
});

test('limits count bytes: a body of exactly the limit is read', async () => {
  const reply = await against(say(sized(Buffer.alloc(maxReplyBytes, 'x'))), (agent) =>
    exchange({ ...patientCall, address: agent.address, port: agent.port }, maxReplyBytes),
  );
  expect(reply.body.length).toBe(maxReplyBytes);
  const tooLong = against(say(sized(Buffer.alloc(maxReplyBytes + 1, 'x'))), (agent) =>
    exchange({ ...patientCall, address: agent.address, port: agent.port }, maxReplyBytes),
  );
  await expect(tooLong).rejects.toThrow('the reply is too long');
});

test('an agent’s data about an execution are validated before a route returns them', async () => {
  const run = {
    ...{ runId: 'a', owner: 'u', command: 'c', cwd: '/', running: true },
    ...{ startedAt: '2026-01-01T00:00:00.000000000Z', deadline: '2026-01-01T01:00:00.000000000Z' },
  };
  const find = (described: object) =>
    against(say(sized(JSON.stringify({ run: described }))), ({ address, port }) =>
      new SandboxAgents(() => 'token').findExecution({
        sandboxId: 'sbx-a',
        secretKeyNumber: 1,
        hostId: null,
        address,
        port,
      }),
    );
  const { runId: executionId, ...rest } = run;
  await expect(find(run)).resolves.toEqual({ executionId, ...rest });
  for (const forged of [
    { startedAt: 'yesterday' },
    { deadline: '2026-13-41T99:99:99.000000000Z' },
    { owner: 'u'.repeat(5000) },
    { command: 'c'.repeat(200_000) },
    { cwd: 7 },
    { runId: '../..' },
  ]) {
    await expect(find({ ...run, ...forged })).rejects.toThrow('The agent does not send a valid reply');
  }
});
