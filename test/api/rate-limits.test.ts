import { randomUUID } from 'node:crypto';
import { forwardedClientField, signForwardedClient } from '../../domain/forwarded-client.ts';
import { startApi, type TestApi } from './test-api.ts';

let api: TestApi;
beforeAll(async () => {
  api = await startApi({ env: { PLATFORM_RATE_LIMIT_PER_KEY: '5', PLATFORM_RATE_LIMIT_PER_ADDRESS: '3' } });
});
afterAll(() => api.stop());

test('a key with too many requests gets a wait time, and other keys are not affected', async () => {
  const member = await api.addUser(api.root);
  for (let left = 4; left >= 0; left--) {
    const reply = await api.send(member, 'GET', '/v1/users/me');
    expect(reply.status).toBe(200);
    expect(reply.headers).toMatchObject({ 'ratelimit-limit': '5', 'ratelimit-remaining': String(left) });
    expect(Number(reply.headers['ratelimit-reset'])).toBeGreaterThan(0);
  }
  const refused = await api.send(member, 'GET', '/v1/users/me');
  expect([refused.status, refused.body.code]).toEqual([429, 'too_many_requests']);
  expect(Number(refused.headers['retry-after'])).toBeGreaterThan(0);
  expect(Number(refused.headers['retry-after'])).toBeLessThanOrEqual(60);
  expect(refused.headers['ratelimit-remaining']).toBe('0');

  const other = await api.addUser(api.root);
  expect((await api.send(other, 'GET', '/v1/users/me')).status).toBe(200);
});

test('an address without a valid key is limited, also with different invalid keys, and a valid key works from there', async () => {
  const remoteAddress = '192.0.2.7';
  const guess = (key?: string) =>
    api.send(null, 'GET', '/v1/users/me', undefined, { remoteAddress, ...(key ? { key } : {}) });
  expect((await guess()).status).toBe(401);
  expect((await guess('spk_wrong')).status).toBe(401);
  expect((await guess('spk_wrong-again')).status).toBe(401);
  const refused = await guess('spk_once-more');
  expect([refused.status, refused.body.code]).toEqual([429, 'too_many_requests']);
  expect((await guess(api.root.key)).status).toBe(200);
  expect((await api.send(null, 'GET', '/v1/users/me', undefined, { remoteAddress: '192.0.2.8' })).status).toBe(401);
});

test.each([
  ['true', '203.0.113.9'],
  ['false', '192.0.2.20'],
])(
  'behind a proxy (%s) the address is the one that it sends, and a caller cannot forge one',
  async (trusted, address) => {
    const requestId = randomUUID();
    const other = await startApi({ env: { PLATFORM_TRUST_PROXY: trusted } });
    try {
      await other.send(null, 'GET', '/v1/users/me', undefined, {
        remoteAddress: '192.0.2.20',
        headers: { 'x-forwarded-for': '198.51.100.1, 203.0.113.9', 'x-request-id': requestId },
      });
      const entries = other.log.map((line) => JSON.parse(line)).filter((line) => line.request_id === requestId);
      expect(entries.find((line) => line.msg === 'request').remote_address).toBe(address);
    } finally {
      await other.stop();
    }
  },
);

test('limits count the client address that the gateway signs, and ignore an address that it has not signed', async () => {
  const gateway = { remoteAddress: '192.0.2.30' };
  const [key] = api.dependencies.clientAddressKeys();
  const through = (address: string, signer = key!) => {
    const headers = { [forwardedClientField]: signForwardedClient(address, signer) };
    return api.send(null, 'GET', '/v1/users/me', undefined, { ...gateway, headers });
  };
  const statuses = async (call: () => Promise<{ status: number }>) => {
    const replies: number[] = [];
    for (let n = 0; n < 4; n++) replies.push((await call()).status);
    return replies;
  };
  expect(await statuses(() => through('198.51.100.31'))).toEqual([401, 401, 401, 429]);
  expect(await statuses(() => through('2001:db8::1'))).toEqual([401, 401, 401, 429]);
  expect((await through('2001:db8::2')).status).toBe(429);
  expect((await through('198.51.100.32')).status).toBe(401);
  expect(await statuses(() => through('198.51.100.33', Buffer.alloc(32)))).toEqual([401, 401, 401, 429]);
  expect((await api.send(null, 'GET', '/v1/users/me', undefined, gateway)).status).toBe(429);
});

test('probes have a separate limit, far above that of an address', async () => {
  for (let i = 0; i < 10; i++) {
    expect((await api.send(null, 'GET', '/healthz', undefined, { remoteAddress: '192.0.2.9' })).status).toBe(200);
  }
});
