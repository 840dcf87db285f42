import { once } from 'node:events';
import fs from 'node:fs';
import http from 'node:http';
import http2 from 'node:http2';
import net from 'node:net';
import { text as textOf } from 'node:stream/consumers';
import zlib from 'node:zlib';
import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import { Code } from '@connectrpc/connect';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import {
  ExecuteRequestSchema,
  Filesystem,
  Process,
  StatRequestSchema,
  StatResponseSchema,
} from '../../agent/proto/gen/sandboxagent_pb.js';
import { headers, type Json, TestAgent, token } from './support/agent.ts';

let agent: TestAgent;
beforeAll(async () => {
  agent = await TestAgent.start();
});
afterAll(() => agent.stop());

const url = (procedure: string) => `${agent.address}/sandboxagent.${procedure}`;
const post = (procedure: string, body: string | Uint8Array, header: Record<string, string | null> = {}) =>
  fetch(url(procedure), {
    method: 'POST',
    headers: headers({ 'content-type': 'application/json', ...header }),
    body: body as never,
  });

/** One frame of a Connect stream. */
const frame = (payload: string | Uint8Array, flags = 0) => {
  const bytes = Buffer.from(payload as string);
  const head = Buffer.alloc(5);
  head[0] = flags;
  head.writeUInt32BE(bytes.length, 1);
  return Buffer.concat([head, bytes]);
};
/** The frames of a reply: flags and JSON. */
const readFrames = async (reply: Response): Promise<[number, Json][]> => {
  const bytes = Buffer.from(await reply.arrayBuffer());
  const frames: [number, Json][] = [];
  for (let at = 0; at < bytes.length; ) {
    const length = bytes.readUInt32BE(at + 1);
    frames.push([bytes[at]!, JSON.parse(bytes.toString('utf8', at + 5, at + 5 + length))]);
    at += 5 + length;
  }
  return frames;
};
const stream = (body: Uint8Array, header: Record<string, string | null> = {}, procedure = 'Process/Start') =>
  post(procedure, body, { 'content-type': 'application/connect+json', ...header });
const startTrue = JSON.stringify({ process: { cmd: 'true' } });

test('a plain POST of JSON is answered in camelCase, every field written, with the exact content type', async () => {
  fs.writeFileSync(agent.path('empty'), '');
  const reply = await post('Filesystem/Stat', JSON.stringify({ path: agent.path('empty') }));
  expect(reply.headers.get('content-type')).toBe('application/json');
  expect(reply.headers.get('content-encoding')).toBeNull();
  expect(await reply.json()).toEqual({
    entry: {
      name: 'empty',
      type: 'FILE_TYPE_FILE',
      path: agent.path('empty'),
      size: '0',
      mode: 0o644,
      permissions: '-rw-r--r--',
      owner: 'root',
      group: 'root',
      modifiedTime: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{3}(\d{3})?)?Z$/),
      metadata: {},
    },
  });
});

test('binary protobuf is answered in binary protobuf', async () => {
  const body = toBinary(StatRequestSchema, create(StatRequestSchema, { path: '/etc' }));
  const reply = await post('Filesystem/Stat', body, { 'content-type': 'application/proto' });
  expect(reply.headers.get('content-type')).toBe('application/proto');
  expect(fromBinary(StatResponseSchema, new Uint8Array(await reply.arrayBuffer())).entry!.path).toBe('/etc');
});

test('fields are accepted in both cases, unknown ones and nulls are ignored, an empty body is an empty message', async () => {
  for (const body of ['{"watcher_id":"w"}', '{"watcherId":"w"}', '{"watcherId":"w","unknown":{"a":[1]},"path":"x"}']) {
    expect(((await (await post('Filesystem/GetWatcherEvents', body)).json()) as Json).code).toBe('not_found');
  }
  expect((await post('Filesystem/ListDir', '{"path":"/etc","depth":null}')).status).toBe(200);
  expect((await post('Process/List', '')).status).toBe(200);
  expect((await post('Process/List', '{}', { 'content-type': 'application/json; charset=utf-8' })).status).toBe(200);
});

test.each([
  ['broken JSON', '{"path":', 400],
  ['JSON of another shape', '[]', 400],
  ['a field of another type', '{"path":7}', 400],
  ['a number out of range', '{"path":"/","depth":-1}', 400],
  ['bytes that are not UTF-8', Buffer.from([0x22, 0xff, 0x22]), 400],
])('%s is invalid_argument', async (_, body, status) => {
  const reply = await post('Filesystem/ListDir', body);
  expect([reply.status, ((await reply.json()) as Json).code]).toEqual([status, 'invalid_argument']);
  expect(reply.headers.get('content-type')).toBe('application/json');
});

test('errors are Connect errors with the status of their code', async () => {
  for (const [procedure, body, status, code] of [
    ['Filesystem/Stat', { path: '/nowhere' }, 404, 'not_found'],
    ['Filesystem/MakeDir', { path: '/etc' }, 409, 'already_exists'],
    ['Filesystem/Stat', { path: '' }, 400, 'invalid_argument'],
    ['Filesystem/Nothing', {}, 501, 'unimplemented'],
    ['Nothing/Stat', {}, 501, 'unimplemented'],
  ] as const) {
    const reply = await agent.post(procedure, body);
    expect([reply.status, reply.json]).toEqual([status, { code, message: expect.any(String) }]);
  }
});

test('other methods and content types are 405 and 415', async () => {
  const get = await fetch(url('Filesystem/Stat'), { headers: headers() });
  expect([get.status, get.headers.get('allow')]).toEqual([405, 'POST']);
  for (const [procedure, type] of [
    ['Filesystem/Stat', 'text/plain'],
    ['Filesystem/Stat', 'application/connect+json'],
    ['Process/Start', 'application/json'],
    ['Process/Start', 'application/connect+xml'],
  ] as const) {
    expect((await post(procedure, '{}', { 'content-type': type })).status).toBe(415);
  }
});

test('another version of the protocol is refused', async () => {
  expect((await post('Process/List', '{}', { 'connect-protocol-version': '1' })).status).toBe(200);
  expect((await post('Process/List', '{}', { 'connect-protocol-version': '2' })).status).toBe(400);
});

test('a stream ends with its end frame, errors in it', async () => {
  const good = await stream(frame(startTrue));
  expect(good.headers.get('content-type')).toBe('application/connect+json');
  const frames = await readFrames(good);
  expect(frames.map(([flags]) => flags)).toEqual([...frames.slice(1).map(() => 0), 2]);
  expect(frames.at(-1)![1]).toEqual({});
  const bad = await stream(frame('{"process":{"cmd":"/no/such"}}'));
  expect(bad.status).toBe(200);
  expect(await readFrames(bad)).toEqual([[2, { error: { code: 'not_found', message: expect.any(String) } }]]);
});

test.each([
  ['nothing', Buffer.alloc(0), 'invalid_argument'],
  ['half a head', Buffer.from([0, 0, 0]), 'invalid_argument'],
  ['half a message', frame(startTrue).subarray(0, 12), 'invalid_argument'],
  ['two messages', Buffer.concat([frame(startTrue), frame(startTrue)]), 'invalid_argument'],
  ['unknown flags', frame(startTrue, 0x80), 'invalid_argument'],
  ['only an end', frame('{}', 2), 'invalid_argument'],
  ['a compressed message without its encoding', frame(zlib.gzipSync(startTrue), 1), 'invalid_argument'],
  ['a head that promises 4 GiB', Buffer.from([0, 0xff, 0xff, 0xff, 0xff, 1]), 'resource_exhausted'],
  ['a message that is no JSON', frame('nope'), 'invalid_argument'],
])('a stream of %s is an error in the end frame', async (_, body, code) => {
  expect(await readFrames(await stream(body))).toEqual([[2, { error: { code, message: expect.any(String) } }]]);
});

test('gzip is accepted, and used in replies when it is requested and saves bytes', async () => {
  const stat = JSON.stringify({ path: '/etc' });
  const squeezed = await post('Filesystem/Stat', zlib.gzipSync(stat), { 'content-encoding': 'gzip' });
  expect(squeezed.status).toBe(200);
  const listing = JSON.stringify({ path: '/usr/bin' });
  expect((await rawHeaders('Filesystem/ListDir', listing, { 'accept-encoding': 'gzip, br' }))['content-encoding']).toBe(
    'gzip',
  );
  expect(
    (await rawHeaders('Filesystem/ListDir', listing, { 'accept-encoding': 'br, gzip;q=0' }))['content-encoding'],
  ).toBeUndefined();
  expect((await rawHeaders('Filesystem/ListDir', listing, {}))['content-encoding']).toBeUndefined();
  expect(
    (await rawHeaders('Filesystem/Stat', stat, { 'accept-encoding': 'gzip' }))['content-encoding'],
  ).toBeUndefined();
  const both = await post('Filesystem/ListDir', listing, { 'accept-encoding': 'gzip' });
  const plain = await post('Filesystem/ListDir', listing, { 'accept-encoding': 'identity' });
  expect(await both.json()).toEqual(await plain.json());
  const frames = await readFrames(
    await stream(frame(zlib.gzipSync(startTrue), 1), { 'connect-content-encoding': 'gzip' }),
  );
  expect(frames.at(-1)).toEqual([2, {}]);
});

/** The raw headers of a reply. */
const rawHeaders = (procedure: string, body: string, header: Record<string, string>) =>
  new Promise<http.IncomingHttpHeaders>((resolve, reject) => {
    const request = http.request(url(procedure), {
      method: 'POST',
      headers: headers({ 'content-type': 'application/json', ...header }),
    });
    request.on('response', (reply) => resolve(reply.resume().headers));
    request.on('error', reject);
    request.end(body);
  });

test('bombs and unknown encodings are refused, and memory stays flat', async () => {
  const bomb = zlib.gzipSync(Buffer.alloc(300_000_000));
  const before = agent.privateMib();
  expect(await (await post('Filesystem/Stat', bomb, { 'content-encoding': 'gzip' })).json()).toMatchObject({
    code: 'resource_exhausted',
  });
  expect(await readFrames(await stream(frame(bomb, 1), { 'connect-content-encoding': 'gzip' }))).toEqual([
    [2, { error: { code: 'resource_exhausted', message: expect.any(String) } }],
  ]);
  expect(agent.privateMib() - before).toBeLessThan(80);
  expect(await (await post('Filesystem/Stat', 'xx', { 'content-encoding': 'gzip' })).json()).toMatchObject({
    code: 'invalid_argument',
  });
  expect(await (await post('Filesystem/Stat', 'xx', { 'content-encoding': 'br' })).json()).toMatchObject({
    code: 'unimplemented',
  });
});

test('messages over the limit are refused while they are sent', async () => {
  const reply = await post('Filesystem/Stat', Buffer.alloc(40_000_000, 0x20));
  expect([reply.status, ((await reply.json()) as Json).code]).toEqual([429, 'resource_exhausted']);
});

test('a deadline that passes is deadline_exceeded, a malformed one invalid_argument', async () => {
  const pid = await sleeping();
  const body = JSON.stringify({ process: { pid }, input: { stdin: Buffer.alloc(2_000_000).toString('base64') } });
  expect(await (await post('Process/SendInput', body, { 'connect-timeout-ms': '200' })).json()).toMatchObject({
    code: 'deadline_exceeded',
  });
  expect(await (await post('Process/List', '{}', { 'connect-timeout-ms': 'x' })).json()).toMatchObject({
    code: 'invalid_argument',
  });
  expect((await post('Process/List', '{}', { 'connect-timeout-ms': '60000' })).status).toBe(200);
  process.kill(-pid, 'SIGKILL');
});

async function sleeping(): Promise<number> {
  for await (const { event } of agent.client(Process).start({ process: { cmd: 'sleep', args: ['600'] } })) {
    if (event!.event.case === 'start') return event!.event.value.pid;
  }
  throw new Error('not started');
}

test.each(['connect+json', 'connect+proto', 'grpc-web', 'grpc'] as const)(
  '%s: unary calls, errors and refusal',
  async (protocol) => {
    expect((await agent.client(Filesystem, protocol).stat({ path: '/etc' })).entry!.path).toBe('/etc');
    await expect(agent.client(Filesystem, protocol).stat({ path: '/nowhere' })).rejects.toMatchObject({
      code: Code.NotFound,
      rawMessage: '/nowhere: not found: no such file or directory',
    });
    await expect(
      agent.client(Filesystem, protocol, { 'x-access-token': null }).stat({ path: '/etc' }),
    ).rejects.toMatchObject({
      code: Code.Unauthenticated,
    });
    await expect(
      agent.client(Filesystem, protocol).watchDir({ path: '/nowhere' })[Symbol.asyncIterator]().next(),
    ).rejects.toMatchObject({
      code: Code.NotFound,
    });
  },
);

test.each(['application/connect+json', 'application/grpc-web+proto'])(
  'the reply of a stream of %s begins before its first message',
  async (type) => {
    const { go, body } = waitingCode(type);
    // Without a head this never resolves, because the code waits for the file.
    const reply = await post('ExecutionService/Execute', body, { 'content-type': type });
    expect([reply.status, reply.headers.get('content-type')]).toEqual([200, type]);
    fs.writeFileSync(go, '');
    expect(await reply.text()).toContain('went');
  },
  60_000,
);

test('so does that of gRPC over HTTP/2', async () => {
  const { go, body } = waitingCode('application/grpc+proto');
  const session = http2.connect(agent.address);
  const request = session.request({
    ':method': 'POST',
    ':path': '/sandboxagent.ExecutionService/Execute',
    'content-type': 'application/grpc+proto',
    te: 'trailers',
    ...headers(),
  });
  request.end(body);
  const [head] = await once(request, 'response');
  expect(head).toMatchObject({ ':status': 200, 'content-type': 'application/grpc+proto' });
  fs.writeFileSync(go, '');
  let trailers = {};
  request.on('trailers', (received) => {
    trailers = received;
  });
  expect(await textOf(request)).toContain('went');
  expect(trailers).toMatchObject({ 'grpc-status': '0' });
  session.close();
}, 60_000);

/** A request to run code that prints `went` when a file is there. */
function waitingCode(type: string): { go: string; body: Buffer } {
  const go = agent.path(`go-${type.replaceAll('/', '-')}`);
  const request = { language: 'bash', code: `until [[ -e ${go} ]]; do sleep 0.05; done; echo went` };
  const isJson = type.endsWith('json');
  return {
    go,
    body: frame(
      isJson ? JSON.stringify(request) : toBinary(ExecuteRequestSchema, create(ExecuteRequestSchema, request)),
    ),
  };
}

test('gRPC-Web has its content type and its status in the trailer', async () => {
  const body = frame(toBinary(StatRequestSchema, create(StatRequestSchema, { path: '/nowhere' })));
  const reply = await post('Filesystem/Stat', body, { 'content-type': 'application/grpc-web+proto' });
  expect([reply.status, reply.headers.get('content-type')]).toEqual([200, 'application/grpc-web+proto']);
  const text = reply.headers.get('grpc-status') ?? Buffer.from(await reply.arrayBuffer()).toString('latin1');
  expect(text).toMatch(/^5$|grpc-status: 5/);
});

test('health, files and Connect are served over HTTP/2 too', async () => {
  const session = http2.connect(agent.address);
  const ask = (header: http2.OutgoingHttpHeaders, body = '') =>
    new Promise<{ status: number; text: string }>((resolve, reject) => {
      const request = session.request(header);
      let status = 0;
      let text = '';
      request.setEncoding('utf8');
      request.on('response', (replied) => {
        status = Number(replied[':status']);
      });
      request.on('data', (chunk) => {
        text += chunk;
      });
      request.on('end', () => resolve({ status, text }));
      request.on('error', reject);
      // A GET has ended already.
      if (body) request.end(body);
    });
  expect(await ask({ ':path': '/health' })).toEqual({ status: 200, text: 'OK' });
  fs.writeFileSync(agent.path('h2'), 'x'.repeat(300_000));
  expect((await ask({ ':path': `/download${agent.path('h2')}`, 'x-access-token': token })).text).toHaveLength(300_000);
  const stat = await ask(
    {
      ':method': 'POST',
      ':path': '/sandboxagent.Filesystem/Stat',
      'x-access-token': token,
      'content-type': 'application/json',
    },
    '{"path":"/etc","unknown":1}',
  );
  expect(JSON.parse(stat.text).entry.path).toBe('/etc');
  expect((await ask({ ':path': '/download/etc/passwd' })).status).toBe(401);
  for (const method of ['GET', 'FOO']) {
    const wrong = { ':method': method, ':path': '/sandboxagent.Filesystem/Stat', 'x-access-token': token };
    expect((await ask(wrong, method === 'FOO' ? '{}' : '')).status).toBe(405);
  }
  session.close();
});

/** Sends raw bytes. Resolves with the received data when the other side closes, or when they match `enough`. */
const raw = (bytes: string | Buffer, enough = /never/) =>
  new Promise<string>((resolve) => {
    let text = '';
    const socket = net.connect(agent.port, '127.0.0.1', () => socket.write(bytes));
    socket.on('data', (chunk) => {
      text += chunk.toString('latin1');
      if (enough.test(text)) socket.destroy();
    });
    socket.on('error', () => {});
    socket.on('close', () => resolve(text));
  });

test('a connection carries the next request after a stream that failed', async () => {
  const kept = new http.Agent({ keepAlive: true, maxSockets: 1 });
  const body = frame(JSON.stringify({ process: { pid: 999_999 } }));
  const header = headers({ 'content-type': 'application/connect+json', 'content-length': `${body.length}` });
  const ports = new Set<number | undefined>();
  for (let index = 0; index < 10; index += 1) {
    const sent = http.request(url('Process/Connect'), { method: 'POST', agent: kept, headers: header });
    // The agent reads the whole request at once.
    sent.end(body);
    const [reply] = (await once(sent, 'response')) as [http.IncomingMessage];
    expect(await textOf(reply)).toContain('not_found');
    ports.add(sent.socket?.localPort);
    // A connection that the agent closes is closed by now.
    await post('Process/List', '{}');
  }
  kept.destroy();
  expect(ports.size).toBe(1);
});

test('too large heads and invalid requests are refused', async () => {
  expect(await raw(`GET /health HTTP/1.1\r\nhost: x\r\nx: ${'y'.repeat(100_000)}\r\n\r\n`)).toMatch(/^HTTP\/1.1 431/);
  expect(await raw(`GET /health HTTP/1.1\r\nhost: x\r\n${'a: b\r\n'.repeat(20_000)}\r\n`)).toMatch(/^HTTP\/1.1 431/);
  expect(await raw('\x16\x03\x01\x02\x00\x01\x00')).toMatch(/^HTTP\/1.1 400/);
  expect(await raw('FOO /sandboxagent.Process/List HTTP/1.1\r\nhost: x\r\n\r\n')).toMatch(/^HTTP\/1.1 405/);
  expect(await raw('GET / HTTP/9.9\r\n\r\n')).toMatch(/^HTTP\/1.1 400/);
  expect(
    await raw('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nnothing like a frame at all, but long enough to be one'),
  ).not.toMatch(/^HTTP/);
  expect(
    await raw('POST /upload HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n'),
  ).toMatch(/^HTTP\/1.1 400/);
});

test('clients that begin a request and stop delay no other client', async () => {
  const sockets = await Promise.all(
    [
      '',
      'G',
      'POST /sandboxagent.Process/List HTTP/1.1\r\nhost: x\r\n',
      `POST /sandboxagent.Process/List HTTP/1.1\r\nhost: x\r\nx-access-token: ${token}\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{`,
    ]
      .flatMap((bytes) => Array.from({ length: 50 }, () => bytes))
      .map(
        (bytes) =>
          new Promise<net.Socket>((resolve) => {
            const socket = net.connect(agent.port, '127.0.0.1', () => {
              if (bytes) socket.write(bytes);
              resolve(socket);
            });
          }),
      ),
  );
  expect((await agent.post('Process/List', {})).status).toBe(200);
  for (const socket of sockets) socket.destroy();
  expect((await agent.post('Process/List', {})).status).toBe(200);
});

test('requests in one packet are answered in their order', async () => {
  const one = (path: string) => {
    const body = JSON.stringify({ path });
    return `POST /sandboxagent.Filesystem/Stat HTTP/1.1\r\nhost: x\r\nx-access-token: ${token}\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`;
  };
  const text = await raw(one('/etc') + one('/nowhere') + one('/usr'), /"path":"\/usr"/);
  expect(text.match(/"name":"etc"|not_found|"name":"usr"/g)).toEqual(['"name":"etc"', 'not_found', '"name":"usr"']);
});
