import { refusedRoutes } from '../../../api/e2b/refused.ts';
import { spellForE2b } from '../../../domain/accounts/api-key.ts';
import { startApi, type TestApi } from '../test-api.ts';
import { sendE2b } from './e2b-client.ts';

let api: TestApi;
beforeAll(async () => {
  api = await startApi();
});
afterAll(() => api.stop());

const host = 'api.sandbox.localhost';

describe('the routes of E2B', () => {
  test.each([host, `${host}:7081`, 'API.Sandbox.LocalHost'])('are at the root for the host %s', async (name) => {
    expect(await sendE2b(api, api.root, 'GET', '/sandboxes', { host: name })).toMatchObject({ status: 200, body: [] });
    const listed = await sendE2b(api, api.root, 'GET', '/v2/sandboxes?limit=1', { host: name });
    expect(listed).toMatchObject({ status: 200, body: [] });
  });

  test.each(['/v1/users/me', '/v1/sandboxes', '/', '/healthz', '/docs', '/metrics', '/openapi.json', '/e2b/sandboxes'])(
    'are the only ones for that host: %s is 404',
    async (path) => {
      const { status, body } = await sendE2b(api, api.root, 'GET', path, { host });
      expect([status, body]).toEqual([404, { code: 404, message: 'There is no such route' }]);
    },
  );

  test.each(['sandbox.localhost', 'xapi.sandbox.localhost', 'api.sandbox.localhost.example.com', 'localhost:7500'])(
    'are not at the root for the host %s, where /v1 and /e2b are',
    async (name) => {
      const ask = (url: string) => api.app.inject({ url, headers: { host: name, 'x-api-key': api.root.key } });
      expect((await ask('/sandboxes')).json()).toMatchObject({ success: false, code: 'route_not_found' });
      expect((await ask('/v1/users/me')).statusCode).toBe(200);
      expect((await ask('/e2b/sandboxes')).statusCode).toBe(200);
    },
  );

  test('leave the API its own paths if the operator has given it that name', async () => {
    const named = await startApi({ env: { PLATFORM_URL: 'https://api.sandbox.localhost/' } });
    try {
      const ask = (url: string) => named.app.inject({ url, headers: { host, 'x-api-key': named.root.key } });
      expect((await ask('/v1/users/me')).statusCode).toBe(200);
      expect((await ask('/e2b/sandboxes')).statusCode).toBe(200);
      expect((await ask('/sandboxes')).statusCode).toBe(404);
    } finally {
      await named.stop();
    }
  });

  test('are not in the OpenAPI document of the platform', () => {
    expect(Object.keys(api.client.document.paths).filter((path) => path.startsWith('/e2b'))).toEqual([]);
  });

  test('accept both spellings of a key', async () => {
    for (const key of [api.root.key, spellForE2b(api.root.key)]) {
      const { status, body } = await sendE2b(api, { key }, 'GET', '/teams');
      expect([status, body]).toEqual([
        200,
        [{ teamID: api.root.accountId, name: expect.any(String), apiKey: '', isDefault: true }],
      ]);
    }
  });
});

describe('a refused request has a reply in the form of E2B', () => {
  test.each([
    ['without a key', null, {}, 401],
    ['with a wrong key', { key: spellForE2b('spk_wrong') }, {}, 401],
    ['with a body that is no JSON', 'root', { body: '{"templateID"' }, 400],
    ['with a body of another type', 'root', { body: 'a=b', headers: { 'content-type': 'text/plain' } }, 415],
    ['with a compressed body', 'root', { body: '{}', headers: { 'content-encoding': 'gzip' } }, 415],
    ['without a body', 'root', {}, 400],
    ['with a body that is too long', 'root', { body: ' '.repeat(1024 * 1024 + 1) }, 413],
    ['with a bad idempotency key', 'root', { body: { templateID: 'base' }, headers: { 'idempotency-key': 'ü' } }, 400],
  ] as const)('%s', async (_name, caller, request, status) => {
    const reply = await sendE2b(api, caller === 'root' ? api.root : caller, 'POST', '/sandboxes', request);
    expect(reply.status).toBe(status);
  });

  test.each([
    ['GET', '/nothing', 404],
    ['GET', '', 404],
    ['GET', '/%zz', 400],
    ['PUT', '/sandboxes', 405],
    ['PATCH', '/v2/sandboxes/sbx-a/connect', 405],
    ['GET', '/sandboxes/sbx-unknown', 404],
    ['GET', `/sandboxes/${'x'.repeat(300)}`, 404],
    ['GET', '/v2/sandboxes?limit=0', 400],
    ['GET', '/v2/sandboxes?nextToken=forged', 400],
  ])('%s %s is %d', async (method, path, status) => {
    expect((await sendE2b(api, api.root, method, path)).status).toBe(status);
  });

  test('over the rate limit, with the time to wait', async () => {
    const limited = await startApi({ env: { PLATFORM_RATE_LIMIT_PER_KEY: '1', PLATFORM_RATE_LIMIT_PER_ADDRESS: '1' } });
    try {
      for (const caller of [limited.root, null]) {
        await sendE2b(limited, caller, 'GET', '/teams');
        const refused = await sendE2b(limited, caller, 'GET', '/teams');
        expect(refused.status).toBe(429);
        expect(Number(refused.headers['retry-after'])).toBeGreaterThan(0);
      }
    } finally {
      await limited.stop();
    }
  });

  test('of a suspended account that would change something', async () => {
    const suspended = await api.addAccount();
    await api.orm.em
      .fork()
      .execute("update accounts set status = 'suspended' where account_id = ?", [suspended.accountId]);
    expect((await sendE2b(api, suspended, 'GET', '/sandboxes')).status).toBe(200);
    const refused = await sendE2b(api, suspended, 'POST', '/sandboxes', { body: { templateID: 'base' } });
    expect(refused).toMatchObject({ status: 403, body: { message: 'The account is suspended' } });
  });

  test('for a bug, without its cause', async () => {
    const made = await sendE2b(api, api.root, 'POST', '/sandboxes', { body: { templateID: 'base' } });
    api.commands.failNext = new Error('the password is hunter2');
    const failed = await sendE2b(api, api.root, 'POST', `/sandboxes/${made.body.sandboxID}/pause`);
    expect(failed).toMatchObject({ status: 500, body: { code: 500, message: 'An internal error occurred' } });
  });
});

test.each(refusedRoutes.map(({ method, url, why }) => [method, url, why] as const))(
  '%s %s is refused with what to do instead',
  async (method, url, why) => {
    const path = url.replaceAll(/:\w+/g, 'some-id');
    const body = method === 'GET' ? {} : { body: { name: 'x', steps: [] } };
    expect(await sendE2b(api, api.root, method, path, body)).toMatchObject({
      status: 501,
      body: { code: 501, message: why },
    });
    expect((await sendE2b(api, null, method, path, body)).status).toBe(401);
    expect(why).toMatch(/^[A-Z].{20,}[a-z`}]$/);
  },
);
