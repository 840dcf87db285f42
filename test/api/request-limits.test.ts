import { once } from 'node:events';
import net from 'node:net';
import { codecAccessToken } from '../../platform/temporal/codec-access.ts';
import { until } from '../support/until.ts';
import { startApi, type TestApi } from './test-api.ts';

let api: TestApi;
let port: number;
beforeAll(async () => {
  api = await startApi({ env: { PLATFORM_RATE_LIMIT_PER_KEY: '0', PLATFORM_RATE_LIMIT_PER_ADDRESS: '0' } });
  await api.app.listen({ host: '127.0.0.1', port: 0 });
  port = (api.app.server.address() as net.AddressInfo).port;
});
afterAll(() => api.stop());

const concrete = (url: string) =>
  url.replace(':token', codecAccessToken(api.settings.PLATFORM_SECRET_KEY)).replaceAll(/:\w+|\*/g, 'x');

describe('every route', () => {
  /** Routes that need more than the default of 16 KiB for a body. Each has a reason in its file. */
  const larger = new Set([
    'POST /v1/sandboxes',
    'POST /e2b/sandboxes',
    'POST /e2b/v2/sandboxes',
    'POST /v1/sandboxes/:sandbox_id/exec',
    'POST /v1/sandboxes/:sandbox_id/resume',
    'POST /v1/sandboxes/:sandbox_id/create-template',
    'POST /codec/:token/decode',
    'POST /codec/:token/encode',
    'POST /v1/templates',
    'POST /v1/templates/import',
    'PUT /v1/templates/:template_id',
    'PUT /v1/templates/:template_id/document',
    'PUT /v1/templates/:template_id/status',
    'POST /v1/webhooks',
    'PUT /v1/webhooks/:endpoint_id',
    'POST /v1/payment/processor-webhook',
    'POST /v1/projects',
    'PUT /v1/projects/:project_id',
    'POST /v1/api-keys',
    'PUT /v1/api-keys/:key_id',
    'PUT /v1/users/me',
    'PUT /v1/user-management/account',
    'POST /v1/user-management/users',
    'PUT /v1/user-management/users/:user_id',
  ]);

  test('has a limit of its body and one of requests, and large bodies are an exception', () => {
    const names = api.app.routeLimits.map(({ method, url }) => `${method} ${url}`);
    for (const [path, operations] of Object.entries<object>(api.client.document.paths)) {
      for (const method of Object.keys(operations)) {
        expect(names).toContain(`${method.toUpperCase()} ${path.replaceAll(/\{(\w+)\}/g, ':$1')}`);
      }
    }
    for (const [index, { bodyBytes, countedBy, requestsPerMinute }] of api.app.routeLimits.entries()) {
      const name = names[index]!;
      expect([name, bodyBytes > 0 && bodyBytes <= (larger.has(name) ? 4 * 1024 * 1024 : 16 * 1024)]).toEqual([
        name,
        true,
      ]);
      expect([name, countedBy === 'key' || requestsPerMinute! > 0]).toEqual([name, true]);
    }
    expect(names.filter((name) => larger.has(name)).sort()).toEqual([...larger].sort());
  });

  test('refuses a body over its own limit with 413', async () => {
    const taking = api.app.routeLimits.filter(({ method }) => method !== 'GET' && method !== 'HEAD');
    expect(taking.length).toBeGreaterThan(25);
    for (const { method, url, bodyBytes } of taking) {
      const reply = await api.app.inject({
        method: method as 'POST',
        url: concrete(url),
        headers: { 'x-api-key': api.root.key, 'content-type': 'application/json' },
        payload: ' '.repeat(bodyBytes + 1),
      });
      expect([method, url, reply.statusCode]).toEqual([method, url, 413]);
      expect(reply.body).toContain(`${bodyBytes} bytes`);
      const code = url.startsWith('/e2b/') ? 413 : 'payload_too_large';
      if (!url.startsWith('/account/')) expect([method, url, reply.json().code]).toEqual([method, url, code]);
    }
  });

  test('counts requests: per key over all routes, and per address on each public route', async () => {
    const limited = await startApi();
    try {
      const { app, root } = limited;
      let left = limited.settings.PLATFORM_RATE_LIMIT_PER_KEY;
      for (const { method, url, countedBy, requestsPerMinute } of app.routeLimits) {
        // A HEAD route shares the count of its GET route.
        if (method === 'HEAD') continue;
        const isPublic = countedBy === 'address';
        const reply = await app.inject({
          method: method as 'GET',
          url: concrete(url),
          remoteAddress: '192.0.2.9',
          ...(!isPublic && { headers: { 'x-api-key': root.key } }),
          // A stream of events has no end.
          payloadAsStream: true,
        });
        const { headers } = reply;
        reply.stream().destroy();
        if (!isPublic) left--;
        // Methods of the codec server and of a page share a count, too.
        expect([method, url, headers['ratelimit-remaining']]).toEqual([
          method,
          url,
          String(
            isPublic
              ? requestsPerMinute! - (/^\/(codec|account)(?!\/add-card)/.test(url) && method === 'POST' ? 2 : 1)
              : left,
          ),
        ]);
      }
      const regions = () => app.inject({ url: '/v1/platform-regions', remoteAddress: '192.0.2.1' });
      for (let sent = 0; sent < 120; sent++) expect((await regions()).statusCode).toBe(200);
      const refused = await regions();
      expect([refused.statusCode, refused.json().code]).toEqual([429, 'too_many_requests']);
      expect((await app.inject({ url: '/v1/platform-regions', remoteAddress: '192.0.2.2' })).statusCode).toBe(200);
      expect((await app.inject({ url: '/openapi.json', remoteAddress: '192.0.2.1' })).statusCode).toBe(200);
    } finally {
      await limited.stop();
    }
  });

  test('a public route without a limit cannot be registered', async () => {
    const { createApp } = await import('../../api/app.ts');
    const app = createApp(api.dependencies);
    app.register(async (scope) => {
      // biome-ignore lint/suspicious/noExplicitAny: a declaration that the types refuse is refused at start, too
      scope.get('/v1/open', { config: { access: { who: 'anyone', rows: 'none' } as any } }, async () => ({}));
    });
    await expect(app.ready()).rejects.toThrow('GET /v1/open is public and states no requestsPerMinute');
    await app.close();
  });
});

describe('before a caller is known', () => {
  const unread = [
    ['no key', 'POST /v1/sandboxes', {}],
    ['a wrong key', 'POST /v1/sandboxes', { 'X-API-Key': 'spk_wrong' }],
    ['no such route', 'POST /v1/nothing', {}],
    ['another method', 'PATCH /v1/sandboxes', {}],
    ['a wrong token of the codec server', 'POST /codec/guess/decode', {}],
    ['a malformed address', 'POST /v1/%zz', {}],
  ] as const;

  async function connect(allowHalfOpen = false): Promise<net.Socket> {
    const socket = net.connect({ port, host: '127.0.0.1', allowHalfOpen });
    await once(socket, 'connect');
    socket.on('error', () => {});
    return socket;
  }

  test.each(unread)(
    '%s: the reply does not wait for the body, and the connection ends',
    async (_what, line, headers) => {
      const socket = await connect();
      const fields = Object.entries({
        Host: 'api',
        'Content-Type': 'application/json',
        'Content-Length': 1e9,
        ...headers,
      });
      socket.write(`${line} HTTP/1.1\r\n${fields.map(([name, value]) => `${name}: ${value}\r\n`).join('')}\r\n{"`);
      const [reply] = await once(socket, 'data');
      expect(String(reply)).toMatch(/^HTTP\/1.1 4\d\d /);
      expect(String(reply).toLowerCase()).toContain('connection: close');
      // It may end with a reset.
      await until(() => socket.closed);
    },
  );

  test.each(unread)('%s: the body of Expect: 100-continue is not requested', async (_what, line, headers) => {
    const socket = await connect();
    const fields = Object.entries({
      Host: 'api',
      'Content-Type': 'application/json',
      'Content-Length': 10,
      ...headers,
    });
    socket.write(
      `${line} HTTP/1.1\r\nExpect: 100-continue\r\n${fields.map(([name, value]) => `${name}: ${value}\r\n`).join('')}\r\n`,
    );
    const [reply] = await once(socket, 'data');
    expect(String(reply)).toMatch(/^HTTP\/1.1 4\d\d /);
    socket.destroy();
  });

  test('a caller who sends 10 MB without a key can read the reply', async () => {
    for (let round = 0; round < 5; round++) {
      const reply = await fetch(`http://127.0.0.1:${port}/v1/sandboxes`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: 'x'.repeat(10 * 1024 * 1024),
      });
      expect([reply.status, ((await reply.json()) as { code: string }).code]).toEqual([401, 'unauthenticated']);
    }
  });

  test('of an endless body only as much is read as the close needs, even if the caller never closes', async () => {
    const socket = await connect(true);
    const closed = new Promise<void>((resolve) => socket.once('close', () => resolve()));
    socket.resume();
    socket.write(
      'POST /v1/sandboxes HTTP/1.1\r\nHost: api\r\nContent-Type: application/json\r\nContent-Length: 1000000000\r\n\r\n',
    );
    const chunk = Buffer.alloc(64 * 1024, 0x20);
    while (!socket.destroyed && socket.bytesWritten < 500 * 1024 * 1024) {
      if (socket.write(chunk)) continue;
      await Promise.race([new Promise((resolve) => socket.once('drain', resolve)), closed]);
    }
    await closed;
    expect(socket.bytesWritten).toBeLessThan(200 * 1024 * 1024);
  });
});

test('an authenticated caller is asked for the body of Expect: 100-continue, unless it is too large', async () => {
  const ask = async (length: number) => {
    const socket = net.connect(port, '127.0.0.1');
    socket.write(
      `POST /v1/projects HTTP/1.1\r\nHost: api\r\nX-API-Key: ${api.root.key}\r\nContent-Type: application/json\r\n` +
        `Expect: 100-continue\r\nContent-Length: ${length}\r\n\r\n`,
    );
    const [reply] = await once(socket, 'data');
    socket.destroy();
    return String(reply).split('\r\n')[0];
  };
  expect(await ask(512 * 1024)).toBe('HTTP/1.1 100 Continue');
  expect(await ask(512 * 1024 + 1)).toBe('HTTP/1.1 413 Payload Too Large');
});

test('a stopping process does not wait for a caller who disconnected during a body', async () => {
  const socket = net.connect(port, '127.0.0.1');
  socket.write(
    `POST /v1/projects HTTP/1.1\r\nHost: api\r\nX-API-Key: ${api.root.key}\r\nContent-Type: application/json\r\n` +
      'Expect: 100-continue\r\nContent-Length: 10\r\n\r\n',
  );
  await once(socket, 'data');
  socket.destroy();
  let hasDrained = false;
  void api.app.drained().then(() => {
    hasDrained = true;
  });
  await until(() => hasDrained);
});

test('concurrent bodies of one caller may have 16 MiB in total, and other callers are not affected', async () => {
  const open = async (key: string, more = '') => {
    const socket = net.connect(port, '127.0.0.1');
    socket.write(
      `POST /v1/sandboxes HTTP/1.1\r\nHost: api\r\nX-API-Key: ${key}\r\nContent-Type: application/json\r\n${more}` +
        `Expect: 100-continue\r\n\r\n`,
    );
    const [reply] = await once(socket, 'data');
    return { socket, status: Number(String(reply).split(' ')[1]) };
  };
  const mebibyte = `Content-Length: ${1024 * 1024}\r\n`;
  // Callers of other tests who disconnected during a body.
  await api.app.drained();
  const held = await Promise.all(Array.from({ length: 16 }, () => open(api.root.key, mebibyte)));
  expect(held.map(({ status }) => status)).toEqual(Array(16).fill(100));
  for (const kind of [mebibyte, 'Transfer-Encoding: chunked\r\n', 'Content-Length: 2\r\n']) {
    expect((await open(api.root.key, kind)).status).toBe(429);
  }
  const other = await open((await api.addUser(api.root)).key, mebibyte);
  expect(other.status).toBe(100);
  for (const { socket } of [...held, other]) socket.destroy();
  await until(async () => {
    const { socket, status } = await open(api.root.key, mebibyte);
    socket.destroy();
    return status === 100;
  });
});

test('limits are in the document', () => {
  const { paths } = api.client.document;
  expect(paths['/v1/sandboxes'].post['x-max-body-bytes']).toBe(1024 * 1024);
  expect(paths['/v1/projects'].post['x-max-body-bytes']).toBe(512 * 1024);
  expect(paths['/v1/sandboxes'].get['x-max-body-bytes']).toBeUndefined();
  expect(paths['/v1/platform-regions'].get['x-requests-per-minute']).toBe(120);
});
