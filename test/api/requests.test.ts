import net from 'node:net';
import { forwardedClientField, signForwardedClient } from '../../domain/forwarded-client.ts';
import { until } from '../support/until.ts';
import { startApi, type TestApi } from './test-api.ts';

let api: TestApi;
beforeAll(async () => {
  api = await startApi();
});
afterAll(() => api.stop());

const code = (reply: { body: { code: string } }) => reply.body.code;

/** Everything that is received for these bytes until the server closes. */
function rawAnswer(port: number, bytes: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = net.connect(port, '127.0.0.1', () => socket.write(bytes));
    let text = '';
    socket.on('data', (data) => {
      text += data;
    });
    socket.on('close', () => resolve(text));
    socket.on('error', reject);
  });
}

describe('fields of every reply', () => {
  test('a success has the envelope', async () => {
    const reply = await api.send(api.root, 'GET', '/v1/users/me');
    expect(reply.status).toBe(200);
    expect(Object.keys(reply.body).sort()).toEqual(['data', 'success', 'timestamp']);
    expect(Math.abs(Date.parse(reply.body.timestamp) - Date.now())).toBeLessThan(30_000);
    expect(reply.body.timestamp).toMatch(/Z$/);
  });

  const sendWith = (id: string) =>
    api.send(null, 'GET', '/v1/users/me', undefined, { headers: { 'x-request-id': id } });
  const loggedUnder = (id: string | undefined) =>
    api.log.map((line) => JSON.parse(line)).find((line) => line.request_id === id && line.msg === 'request');

  test.each(['6e0f6a52-25b1-4d0f-9d38-0d5a5a1c9d11', '4bf92f3577b34da6a3ce929d0e0e4736'])(
    "a caller's request id comes back in header, body and log: %s",
    async (id) => {
      const reply = await sendWith(id);
      expect(reply.headers['x-request-id']).toBe(id);
      expect(reply.body.request_id).toBe(id);
      expect(loggedUnder(id)).toBeDefined();
      expect(loggedUnder(id)).not.toHaveProperty('client_request_id');
    },
  );

  test('an id of another format is replaced, and logged with the new one', async () => {
    const reply = await sendWith('mine-42');
    const id = reply.headers['x-request-id'] as string;
    expect(id).toMatch(/^[0-9a-f-]{36}$/);
    expect(reply.body.request_id).toBe(id);
    expect(loggedUnder(id)).toMatchObject({ client_request_id: 'mine-42' });
  });

  test.each(['with space', 'x'.repeat(129), '<script>', ''])(
    'an invalid id is replaced and not logged: %s',
    async (id) => {
      const reply = await sendWith(id);
      const own = reply.headers['x-request-id'] as string;
      expect(own).toMatch(/^[0-9a-f-]{36}$/);
      expect(loggedUnder(own)).not.toHaveProperty('client_request_id');
    },
  );
});

describe('unreadable requests are refused', () => {
  test.each([
    ['{"name": ', 'application/json'],
    ['nonsense', 'application/json'],
    ['{"__proto__": {"a": 1}}', 'application/json'],
  ])('bad JSON is 400 invalid_json: %s', async (rawBody, contentType) => {
    const reply = await api.send(api.root, 'POST', '/v1/sandboxes', undefined, { rawBody, contentType });
    expect([reply.status, code(reply)]).toEqual([400, 'invalid_json']);
  });

  test.each([['[]'], ['"text"'], ['7'], ['true']])('a body that is not an object is 400: %s', async (rawBody) => {
    const reply = await api.send(api.root, 'POST', '/v1/sandboxes', undefined, {
      rawBody,
      contentType: 'application/json',
    });
    expect([reply.status, code(reply)]).toEqual([400, 'validation_failed']);
  });

  test.each([['text/plain'], ['application/x-www-form-urlencoded'], ['multipart/form-data; boundary=x'], ['nonsense']])(
    'a body of another type is 415: %s',
    async (contentType) => {
      const reply = await api.send(api.root, 'POST', '/v1/projects', undefined, { rawBody: 'name=x', contentType });
      expect([reply.status, code(reply)]).toEqual([415, 'unsupported_media_type']);
    },
  );

  test.each([
    ['/v1/projects', { name: 'a\u0000b' }, 'name'],
    ['/v1/sandboxes', { metadata: { key: 'half \ud800 pair' } }, 'metadata.key'],
    ['/v1/sandboxes', { env_vars: { A: 'x\u0000' } }, 'env_vars.A'],
  ])('text that a database cannot hold is 400, not 500: %s %j', async (url, body, path) => {
    const reply = await api.send(api.root, 'POST', url, body);
    expect([reply.status, code(reply)]).toEqual([400, 'validation_failed']);
    expect(reply.body.details[0].path).toBe(path);
  });

  test('the same in a query is 400, and in a path 404', async () => {
    expect((await api.send(api.root, 'GET', '/v1/sandboxes?search=%00')).status).toBe(400);
    expect((await api.send(api.root, 'GET', '/v1/projects/%00')).status).toBe(404);
  });

  test('every invalid field is named with its reason, and no value is repeated', async () => {
    const reply = await api.send(api.root, 'POST', '/v1/sandboxes', {
      cpu_count: 'two',
      custom_ports: [
        { port: 80, name: 'web' },
        { port: 70_000, name: 'hidden-port' },
      ],
      env_vars: { GOOD: 'hidden-secret', BAD: 5 },
    });
    expect(code(reply)).toBe('validation_failed');
    expect(reply.body.details.map((item: { path: string }) => item.path).sort()).toEqual([
      'cpu_count',
      'custom_ports.1.port',
      'env_vars.BAD',
    ]);
    expect(reply.text).not.toMatch(/hidden-/);
  });
});

describe('over a real connection', () => {
  let port: number;
  beforeAll(async () => {
    await api.app.listen({ host: '127.0.0.1', port: 0 });
    port = (api.app.server.address() as net.AddressInfo).port;
  });

  test.each([
    ['false', 3],
    ['true', 5],
  ])('one address has a share of the connections, unless all come from a proxy: %s', async (proxy, expected) => {
    const env = { PLATFORM_API_MAX_CONNECTIONS_PER_CLIENT: '3', PLATFORM_TRUST_PROXY: proxy };
    const limited = await startApi({ env });
    const sockets: net.Socket[] = [];
    try {
      await limited.app.listen({ host: '127.0.0.1', port: 0 });
      const { port: limitedPort } = limited.app.server.address() as net.AddressInfo;
      const answered = async (localAddress: string) => {
        const socket = net.connect({ port: limitedPort, host: '127.0.0.1', localAddress });
        sockets.push(socket);
        return new Promise<boolean>((resolve) => {
          socket.once('data', () => resolve(true));
          socket.on('error', () => resolve(false)).once('close', () => resolve(false));
          socket.write('GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n');
        });
      };
      let count = 0;
      for (let n = 0; n < 5; n++) if (await answered('127.0.0.1')) count++;
      expect(count).toBe(expected);
      expect(await answered('127.0.0.2')).toBe(true);
      sockets[0]!.destroy();
      await until(() => answered('127.0.0.1'));
    } finally {
      for (const socket of sockets) socket.destroy();
      await limited.stop();
    }
  });

  test('connections of the gateway have no share, because it counts its clients itself', async () => {
    const limited = await startApi({ env: { PLATFORM_API_MAX_CONNECTIONS_PER_CLIENT: '2' } });
    const sockets: net.Socket[] = [];
    try {
      await limited.app.listen({ host: '127.0.0.1', port: 0 });
      const { port: limitedPort } = limited.app.server.address() as net.AddressInfo;
      const [key] = limited.dependencies.clientAddressKeys();
      const isAnswered = (signer: Buffer) => {
        const socket = net.connect({ port: limitedPort, host: '127.0.0.1' });
        sockets.push(socket);
        return new Promise<boolean>((resolve) => {
          socket.once('data', () => resolve(true));
          socket.on('error', () => resolve(false)).once('close', () => resolve(false));
          const signed = `${forwardedClientField}: ${signForwardedClient('198.51.100.1', signer)}`;
          socket.write(`GET /healthz HTTP/1.1\r\nHost: x\r\n${signed}\r\n\r\n`);
        });
      };
      for (let n = 0; n < 5; n++) expect(await isAnswered(key!)).toBe(true);
      const forged: boolean[] = [];
      for (let n = 0; n < 3; n++) forged.push(await isAnswered(Buffer.alloc(32)));
      expect(forged).toEqual([true, true, false]);
    } finally {
      for (const socket of sockets) socket.destroy();
      await limited.stop();
    }
  });

  test('a body of 10 MB is 413, and the caller can read the reply', async () => {
    const before = await api.counts();
    for (let round = 0; round < 5; round++) {
      const reply = await fetch(`http://127.0.0.1:${port}/v1/sandboxes`, {
        method: 'POST',
        headers: { 'x-api-key': api.root.key, 'content-type': 'application/json' },
        body: JSON.stringify({ description: 'x'.repeat(10 * 1024 * 1024) }),
      });
      expect(reply.status).toBe(413);
      expect(((await reply.json()) as { code: string }).code).toBe('payload_too_large');
    }
    expect(await api.counts()).toEqual(before);
  });

  test('a body of 10 MB in chunks of unknown length is 413 too', async () => {
    const chunk = new TextEncoder().encode('x'.repeat(64 * 1024));
    let left = 160;
    const body = new ReadableStream({
      pull(controller) {
        if (left-- > 0) controller.enqueue(chunk);
        else controller.close();
      },
    });
    const reply = await fetch(`http://127.0.0.1:${port}/v1/sandboxes`, {
      method: 'POST',
      headers: { 'x-api-key': api.root.key, 'content-type': 'application/json' },
      body,
      duplex: 'half',
    } as RequestInit);
    expect(reply.status).toBe(413);
  });

  test.each([
    ['QUERY', '/v1/sandboxes', 405, 'GET, HEAD, POST'],
    ['QUERY', '/v1/sandboxes/stats', 405, 'GET, HEAD'],
    ['QUERY', '/v1/nothing', 404, undefined],
    ['PROPFIND', '/v1/sandboxes?limit=1', 405, 'GET, HEAD, POST'],
    ['TRACE', '/healthz', 405, 'GET, HEAD'],
    ['UNHEARD-OF', '/v1/sandboxes?limit=1', 405, 'GET, HEAD, POST'],
    ['UNHEARD-OF', '/v1/nothing', 404, undefined],
  ])(
    'a method that no route has is 405 with Allow where the route is known: %s %s',
    async (method, url, status, allow) => {
      for (const body of ['', '{}', '<xml>']) {
        const type = body === '' ? '' : `Content-Type: ${body === '{}' ? 'application/json' : 'text/xml'}\r\n`;
        const answer = await rawAnswer(
          port,
          `${method} ${url} HTTP/1.1\r\nHost: x\r\n${type}Content-Length: ${body.length}\r\nConnection: close\r\n\r\n${body}`,
        );
        const [head, text] = answer.split('\r\n\r\n') as [string, string];
        expect(head).toMatch(new RegExp(`^HTTP/1.1 ${status} `));
        expect(/^allow: (.*)$/im.exec(head)?.[1]).toBe(allow);
        const { code: errorCode, request_id: requestId } = JSON.parse(text);
        expect(errorCode).toBe(status === 405 ? 'method_not_allowed' : 'route_not_found');
        expect(head.toLowerCase()).toContain(`x-request-id: ${requestId}`);
      }
    },
  );

  test('a request that is not HTTP gets an error body and the connection closes', async () => {
    const answer = await rawAnswer(port, 'NONSENSE\r\n\r\n');
    expect(answer).toMatch(/^HTTP\/1.1 400 /);
    const body = JSON.parse(answer.split('\r\n\r\n')[1]!);
    expect(body).toMatchObject({ success: false, code: 'validation_failed' });
    expect(answer).toContain(`X-Request-Id: ${body.request_id}`);
  });
});

describe('harmless deviations are accepted', () => {
  test.each([
    ['nothing at all', undefined, undefined],
    ['no body with a JSON content type', '', 'application/json'],
    ['white space with a JSON content type', ' \n', 'application/json; charset=utf-8'],
    ['null', 'null', 'application/json'],
    ['unknown fields', '{"future_field": {"a": [1]}}', 'application/json'],
    [
      'null for every optional field',
      JSON.stringify(
        Object.fromEntries(
          [
            ...['name', 'description', 'template', 'project_id', 'cpu_count', 'memory_mb', 'storage_gb', 'timeout'],
            ...['env_vars', 'metadata', 'secure', 'allow_internet_access', 'object_storage', 'auto_pause', 'is_async'],
            ...['object_storage_direct_mount', 's3fs_executable_path', 'custom_ports', 'locality'],
          ].map((name) => [name, null]),
        ),
      ),
      'application/json',
    ],
  ])('create with %s', async (_name, rawBody, contentType) => {
    const reply = await api.send(api.root, 'POST', '/v1/sandboxes', undefined, {
      ...(rawBody === undefined ? {} : { rawBody }),
      ...(contentType === undefined ? {} : { contentType }),
    });
    expect(reply.status).toBe(201);
    expect(reply.body.data).toMatchObject({ cpu_count: 2, memory_mb: 512, storage_gb: 5, timeout: 300, secure: true });
    const removed = await api.send(api.root, 'DELETE', `/v1/sandboxes/${reply.body.data.sandbox_id}`, undefined, {
      contentType: 'application/json',
    });
    expect(removed.status).toBe(202);
  });

  test('a slash at the end', async () => {
    expect((await api.send(api.root, 'GET', '/v1/projects/')).status).toBe(200);
  });
});

describe('addresses', () => {
  test('an unknown one is 404 route_not_found', async () => {
    const reply = await api.send(api.root, 'GET', '/v1/nothing');
    expect([reply.status, code(reply)]).toEqual([404, 'route_not_found']);
  });

  test.each([
    ['PATCH', '/v1/sandboxes', 'GET, HEAD, POST'],
    ['POST', '/v1/sandboxes/stats', 'GET, HEAD'],
    ['DELETE', '/v1/api-keys/key-1/status', 'PUT'],
    ['PATCH', '/v1/sandboxes/batch-delete', 'POST'],
    ['PATCH', '/v1/sandboxes/sbx-1/', 'DELETE, GET, HEAD, PUT'],
    ['PUT', '/v1/sandboxes/sbx-1/exec/stream', 'GET'],
    ['POST', '/docs', 'GET, HEAD'],
    ['POST', '/openapi.json/', 'GET, HEAD'],
  ])('a known one with another method is 405 with Allow: %s %s', async (method, url, allow) => {
    const reply = await api.send(api.root, method, url);
    expect([reply.status, code(reply)]).toEqual([405, 'method_not_allowed']);
    expect(reply.headers.allow).toBe(allow);
  });

  test('a malformed one is 400', async () => {
    const reply = await api.send(api.root, 'GET', '/v1/%zz');
    expect([reply.status, code(reply)]).toEqual([400, 'validation_failed']);
  });

  test('an id that is far too long is not found', async () => {
    expect((await api.send(api.root, 'GET', `/v1/projects/${'x'.repeat(1000)}`)).status).toBe(404);
  });
});

test('an internal error is 500, with its cause only in the log', async () => {
  const made = await api.send(api.root, 'POST', '/v1/sandboxes');
  api.commands.failNext = new Error('the hidden cause');
  const reply = await api.send(api.root, 'POST', `/v1/sandboxes/${made.body.data.sandbox_id}/pause`);
  expect([reply.status, code(reply)]).toEqual([500, 'internal_error']);
  expect(reply.text).not.toContain('hidden cause');
  const entry = api.log.map((line) => JSON.parse(line)).find((line) => line.err?.message.includes('hidden cause'));
  expect(entry.request_id).toBe(reply.headers['x-request-id']);
});

test('a request is logged with its caller, route and workflow, and without secrets', async () => {
  const made = await api.send(api.root, 'POST', '/v1/sandboxes', { env_vars: { TOKEN: 'not-for-the-log' } });
  const sandboxId = made.body.data.sandbox_id;
  await api.send(api.root, 'GET', `/v1/sandboxes/${sandboxId}?secret=not-for-the-log`);
  const entries = api.log.map((line) => JSON.parse(line)).filter((line) => line.workflow_id === sandboxId);
  expect(entries.map((line) => [line.method, line.status, line.msg])).toEqual([
    ['POST', 201, 'request'],
    ['GET', 200, 'request'],
  ]);
  expect(entries[1]).toMatchObject({
    path: `/v1/sandboxes/${sandboxId}`,
    route: '/v1/sandboxes/:sandbox_id',
    account_id: api.root.accountId,
    user_id: api.root.userId,
    key_id: api.root.keyId,
  });
  const all = api.log.join('\n');
  expect(all).not.toContain('not-for-the-log');
  expect(all).not.toContain(api.root.key);
  expect(all).not.toContain('token-of-');
});
