import { createHmac } from 'node:crypto';
import http from 'node:http';
import net from 'node:net';
import { pino } from 'pino';
import { TurnCredentialService } from '../../../worker/sandboxes/turn-credential-service.ts';
import { freePort } from '../../support/free-port.ts';
import { until } from '../../support/until.ts';

const secret = 'the-secret';
let service: TurnCredentialService;
let port: number;

beforeAll(async () => {
  port = await freePort();
  service = new TurnCredentialService({
    turn: {
      secret,
      publicAddress: { host: '2001:db8::7', port: 3478 },
      internalAddress: { host: 'turn.internal', port: 3479 },
      credentialTtlSeconds: 600,
      servicePort: port,
    },
    sandboxAt: async (address) => {
      if (address === '127.0.0.9') throw new Error(`not now: ${secret}`);
      return address === '127.0.0.1' || address === '127.0.0.3' ? `sbx-of-${address}` : null;
    },
    logger: pino({ level: 'silent' }),
  });
  await service.listen('127.0.0.1');
});
afterAll(() => service.close());

/** A connection that reads and ignores its errors. */
function connect(localAddress: string): net.Socket {
  return net
    .connect({ host: '127.0.0.1', port, localAddress })
    .on('error', () => {})
    .resume();
}

function ask(path: string, options: { from?: string; method?: string } = {}) {
  const { from: localAddress = '127.0.0.1', method = 'GET' } = options;
  return new Promise<{ status: number; text: string }>((resolve, reject) => {
    const request = http.request({ host: '127.0.0.1', port, path, method, localAddress, agent: false }, (reply) => {
      let text = '';
      reply.setEncoding('utf8').on('data', (part) => {
        text += part;
      });
      reply.on('end', () => resolve({ status: reply.statusCode!, text }));
    });
    request.once('error', reject).end();
  });
}

test.each([
  ['', '[2001:db8::7]:3478'],
  ['?internal=0', '[2001:db8::7]:3478'],
  ['?internal=1', 'turn.internal:3479'],
])('a sandbox gets its own credential: %j', async (query, authority) => {
  const { status, text } = await ask(`/api/turn-credential${query}`);
  expect(status).toBe(200);
  const { iceServers, username, credential, ttl } = JSON.parse(text);
  expect(username).toMatch(/^\d+:sbx-of-127\.0\.0\.1$/);
  expect(Math.abs(Number(username.split(':')[0]) - Date.now() / 1000 - 600)).toBeLessThan(60);
  expect(credential).toBe(createHmac('sha1', secret).update(username).digest('base64'));
  const urls = [`stun:${authority}`, `turn:${authority}?transport=udp`, `turn:${authority}?transport=tcp`];
  expect([iceServers, ttl]).toEqual([[{ urls, username, credential }], 600]);
  expect(text).not.toContain(secret);
});

test('no other client and no other request is served', async () => {
  expect((await ask('/api/turn-credential', { from: '127.0.0.2' })).status).toBe(403);
  expect((await ask('/')).status).toBe(404);
  expect((await ask('/api/turn-credential', { method: 'POST' })).status).toBe(405);
  expect(await ask('/api/turn-credential', { from: '127.0.0.9' })).toEqual({
    status: 500,
    text: '{"error":"Something went wrong"}',
  });
});

test('a sandbox that asks endlessly is slowed down, and no other is', async () => {
  // All requests in one piece, so that they arrive within a second on any machine.
  const asked = 200;
  const request = 'GET /api/turn-credential HTTP/1.1\r\nhost: x\r\n';
  const socket = connect('127.0.0.3');
  let replies = '';
  socket.on('data', (part) => {
    replies += part;
  });
  socket.write(`${`${request}\r\n`.repeat(asked - 1)}${request}connection: close\r\n\r\n`);
  await until(() => socket.destroyed);
  const statuses = [...replies.matchAll(/HTTP\/1\.1 (\d+)/g)].map(([, status]) => status);
  expect(statuses).toHaveLength(asked);
  expect(new Set(statuses)).toEqual(new Set(['200', '429']));
  expect((await ask('/api/turn-credential')).status).toBe(200);
});

test('a sandbox may hold only a few open connections, and does not block other sandboxes', async () => {
  const held = Array.from({ length: 300 }, () => connect('127.0.0.3'));
  try {
    await until(() => held.every(({ readyState }) => readyState !== 'opening'));
    expect((await ask('/api/turn-credential')).status).toBe(200);
    await until(() => held.filter(({ destroyed }) => !destroyed).length <= 8);
  } finally {
    for (const socket of held) socket.destroy();
  }
});

test('upgrade requests, malformed and unfinished ones do not end the service', async () => {
  const heads = [
    'GET /api/turn-credential HTTP/1.1\r\nhost: x\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\n',
    'CONNECT other:80 HTTP/1.1\r\nhost: x\r\n\r\n',
    'GET http://[ HTTP/1.1\r\nhost: x\r\n\r\n',
    'GET /api/turn-credential HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\n\r\n',
    '\0\0\0',
    `GET /${'x'.repeat(100_000)}`,
  ];
  for (const head of heads) {
    const socket = connect('127.0.0.1');
    socket.end(head);
    await until(() => socket.destroyed);
  }
  expect((await ask('/api/turn-credential')).status).toBe(200);
});
