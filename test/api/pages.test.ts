import { createApp } from '../../api/app.ts';
import { startApi, type TestApi } from './test-api.ts';

let api: TestApi;

beforeAll(async () => {
  api = await startApi({ env: { PLATFORM_RATE_LIMIT_PER_ADDRESS: '0' } });
});
afterAll(() => api.stop());

test.each(['sign-in', 'reset-password', 'forgot-password', 'confirm-email-change'])(
  '/account/%s of earlier mails leads to the same page of the console, with the token of the link and nothing else',
  async (page) => {
    const reply = await api.app.inject({ url: `/account/${page}?token=a%26b&evil=1` });
    expect([reply.statusCode, reply.headers.location, reply.body]).toEqual([
      ...[302, `http://127.0.0.1:7080/console/${page}?token=a%26b`, ''],
    ]);
    expect(reply.headers['referrer-policy']).toBe('no-referrer');
    const without = await api.app.inject({ url: `/account/${page}` });
    expect(without.headers.location).toBe(`http://127.0.0.1:7080/console/${page}`);
    expect((await api.app.inject({ method: 'POST', url: `/account/${page}` })).statusCode).toBe(405);
  },
);

test('a link with two tokens is refused with a page', async () => {
  const reply = await api.app.inject({ url: '/account/reset-password?token=a&token=b' });
  expect([reply.statusCode, reply.headers['content-type']]).toEqual([400, 'text/html; charset=utf-8']);
  expect(reply.headers).toMatchObject({
    'content-security-policy':
      "default-src 'none'; style-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    'referrer-policy': 'no-referrer',
    'cache-control': 'no-store',
  });
  expect(reply.body).not.toMatch(/<script|style=|onload=/);
});

test('the API accepts no forms', async () => {
  const reply = await api.app.inject({
    method: 'POST',
    url: '/v1/auth/session',
    headers: { 'content-type': 'application/x-www-form-urlencoded' },
    payload: 'email=a&password=b',
  });
  expect(reply.statusCode).toBe(415);
});

test('links lead to the operator’s own pages if there are any', async () => {
  const settings = { ...api.settings, PLATFORM_CONSOLE_URL: 'https://console.example.com/app/' };
  const app = createApp({ ...api.dependencies, settings });
  await app.ready();
  const reply = await app.inject({ url: '/account/reset-password?token=a%26b&evil=1' });
  expect([reply.statusCode, reply.headers.location]).toEqual([
    302,
    'https://console.example.com/app/reset-password?token=a%26b',
  ]);
  await app.close();
});
