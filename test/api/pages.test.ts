import type { FastifyInstance } from 'fastify';
import { createApp } from '../../api/app.ts';
import { addAccountLink } from '../../db/accounts/account-links.ts';
import { User } from '../../db/accounts/user.entity.ts';
import { OutboxEntry } from '../../db/core/outbox-entry.entity.ts';
import type { UserId } from '../../domain/ids.ts';
import { startApi, type TestApi } from './test-api.ts';

const password = 'korrekt pferd batterie';
let api: TestApi;
let email: string;
let userId: UserId;

beforeAll(async () => {
  api = await startApi({ env: { PLATFORM_RATE_LIMIT_PER_ADDRESS: '0' } });
  const caller = await api.addAccount();
  userId = caller.userId;
  const em = api.orm.em.fork();
  await em.nativeUpdate(User, { userId }, { passwordHash: await api.dependencies.passwords.hash(password) });
  ({ email } = await em.findOneOrFail(User, { userId }));
});
afterAll(() => api.stop());

let links = 0;
async function newLink(): Promise<string> {
  links += 1;
  const token = `link-${links}-${userId}`;
  const expiresAt = new Date(Date.now() + 60_000);
  await addAccountLink(api.orm.em, { token, purpose: 'password-reset', userId, provesEmail: true, expiresAt });
  return token;
}

interface Opened {
  status: number;
  html: string;
  /** In the form in which a browser sends it back. */
  cookie: string;
  csrf: string;
}

async function open(url: string, app: FastifyInstance = api.app): Promise<Opened> {
  const reply = await app.inject({ url });
  const [set = ''] = [reply.headers['set-cookie'] ?? ''].flat();
  return {
    status: reply.statusCode,
    html: reply.body,
    cookie: set.split(';')[0]!,
    csrf: /name="_csrf" value="([^"]+)"/.exec(reply.body)?.[1] ?? '',
  };
}

function post(
  url: string,
  fields: Record<string, string>,
  { cookie = '', csrf = '' }: Partial<Opened>,
  app: FastifyInstance = api.app,
) {
  return app.inject({
    method: 'POST',
    url,
    headers: { 'content-type': 'application/x-www-form-urlencoded', ...(cookie && { cookie }) },
    payload: new URLSearchParams({ ...fields, ...(csrf && { _csrf: csrf }) }).toString(),
  });
}

const signIn = (secret: string) => api.send(null, 'POST', '/v1/auth/sign-in', { email, password: secret });

const urls = [
  '/account/sign-in',
  '/account/reset-password?token=x',
  '/account/forgot-password',
  '/account/confirm-email-change?token=x',
];

test.each(urls)(
  '%s runs no script, loads nothing from other servers, and is in no cache, frame or referrer',
  async (url) => {
    const reply = await api.app.inject({ url });
    expect([reply.statusCode, reply.headers['content-type']]).toEqual([200, 'text/html; charset=utf-8']);
    expect(reply.headers).toMatchObject({
      'content-security-policy':
        "default-src 'none'; style-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
      'referrer-policy': 'no-referrer',
      'x-content-type-options': 'nosniff',
      'x-frame-options': 'DENY',
      'cache-control': 'no-store',
    });
    expect(reply.body).not.toMatch(/<script|style=|onload=|https?:\/\//);
    expect(String(reply.headers['set-cookie'])).toMatch(/; Path=\/account; HttpOnly; SameSite=Strict$/);
  },
);

test('/ describes the platform, links to everything else, and runs no script', async () => {
  const settings = { ...api.dependencies.settings, TEMPORAL_UI_URL: 'http://temporal.example:8080/?a="b"' };
  const withUi = createApp({ ...api.dependencies, settings });
  const reply = await withUi.inject({ url: '/' });
  expect([reply.statusCode, reply.headers['content-type']]).toEqual([200, 'text/html; charset=utf-8']);
  expect(reply.headers['content-security-policy']).toContain("default-src 'none'");
  expect(reply.body).not.toMatch(/<script|style=|onload=/);
  expect(reply.body).toContain('<a href="http://temporal.example:8080/?a=&#34;b&#34;">');
  await withUi.close();
  const plain = await open('/');
  expect(plain.html).not.toContain('Temporal Web UI');
  const links = [...plain.html.matchAll(/href="(\/[^"]*)"/g)].map(([, link]) => link!);
  expect(links.sort()).toEqual([
    ...['/account/style.css', '/clients', '/docs', '/guide', '/guide/quick-start', '/openapi.json', '/readyz'],
  ]);
  for (const url of links) expect((await api.app.inject({ url })).statusCode).toBeLessThan(400);
  expect((await api.app.inject({ method: 'POST', url: '/' })).statusCode).toBe(405);
});

test('parameters of an address are text on the page', async () => {
  const { html } = await open(`/account/reset-password?token=${encodeURIComponent('"><script>alert(1)</script>')}`);
  expect(html).not.toContain('<script>');
  expect(html).toContain('&#34;&#62;&#60;script&#62;');
});

test('a form that was opened before the key was replaced can be sent until the former key is removed', async () => {
  const [former, current] = [Buffer.alloc(32, 1), Buffer.alloc(32, 2)];
  let keys = [former];
  const app = createApp({ ...api.dependencies, formKeys: () => keys });
  const url = '/account/sign-in';
  const page = await open(url, app);
  const send = () => post(url, { email, password }, page, app);
  expect((await send()).body).not.toContain('The form has expired');
  keys = [current, former];
  expect((await send()).body).not.toContain('The form has expired');
  keys = [current];
  expect((await send()).body).toContain('The form has expired');
  await app.close();
});

test('opening a link, even repeatedly, changes nothing; its button sets the password once', async () => {
  const token = await newLink();
  const url = `/account/reset-password?token=${token}`;
  for (let i = 0; i < 3; i++) await open(url);
  const page = await open(url);
  const fields = { token, new_password: 'ein anderes pferd', repeated: 'ein anderes pferd' };

  const differing = await post('/account/reset-password', { ...fields, repeated: 'another' }, page);
  expect([differing.statusCode, differing.body]).toEqual([400, expect.stringContaining('The two passwords differ')]);
  const weak = await post('/account/reset-password', { token, new_password: 'short', repeated: 'short' }, page);
  expect([weak.statusCode, weak.body]).toEqual([400, expect.stringContaining('at least 8 characters')]);
  expect(weak.body).toContain(`name="token" value="${token}"`);
  expect(weak.body).not.toContain('value="short"');

  const done = await post('/account/reset-password', fields, page);
  expect([done.statusCode, done.body]).toEqual([200, expect.stringContaining('The new password is set')]);
  expect((await signIn('ein anderes pferd')).status).toBe(200);
  const again = await post('/account/reset-password', fields, page);
  expect([again.statusCode, again.body]).toEqual([400, expect.stringContaining('The link is not valid')]);
  await api.orm.em
    .fork()
    .nativeUpdate(User, { userId }, { passwordHash: await api.dependencies.passwords.hash(password) });
});

describe('a form is refused and does nothing', () => {
  const forged: [string, (page: Opened, other: Opened) => Partial<Opened>][] = [
    ['without token and cookie', () => ({})],
    ['without its token', ({ cookie }) => ({ cookie })],
    ['without its cookie', ({ csrf }) => ({ csrf })],
    ['with the token of another visitor', ({ cookie }, other) => ({ cookie, csrf: other.csrf })],
    [
      'with a cookie that the platform did not sign',
      ({ csrf, cookie }) => ({ csrf, cookie: cookie.replace(/\.[^.]+$/, '.forged') }),
    ],
  ];
  test.each(forged)('%s', async (_what, forge) => {
    const token = await newLink();
    const page = await open(`/account/reset-password?token=${token}`);
    const other = await open('/account/sign-in');
    const fields = { token, new_password: 'ein anderes pferd', repeated: 'ein anderes pferd' };
    const reply = await post('/account/reset-password', fields, forge(page, other));
    expect([reply.statusCode, reply.headers['content-type']]).toEqual([403, 'text/html; charset=utf-8']);
    expect(reply.body).toContain('The form has expired');
    expect((await signIn(password)).status).toBe(200);
  });
});

test('a form of one replica is accepted by another', async () => {
  const replica = createApp(api.dependencies);
  await replica.ready();
  const page = await open('/account/sign-in');
  const reply = await post('/account/sign-in', { email, password }, page, replica);
  expect(reply.statusCode).toBe(200);
  await replica.close();
});

test('signing in shows a token that works, and a wrong password its problem', async () => {
  const page = await open('/account/sign-in');
  const wrong = await post('/account/sign-in', { email, password: 'wrong' }, page);
  expect([wrong.statusCode, wrong.body]).toEqual([401, expect.stringContaining('The e-mail or the password is wrong')]);
  const reply = await post('/account/sign-in', { email, password }, page);
  const [, token] = /<code>(eyJ[\w.-]+)<\/code>/.exec(reply.body)!;
  const profile = await api.client.send('GET', '/v1/users/me', { headers: { authorization: `Bearer ${token}` } });
  expect(profile.body.data.user_id).toBe(userId);
});

test('a forgotten password: the page is the same for everyone, and users get a link', async () => {
  const page = await open('/account/forgot-password');
  const [known, unknown] = await Promise.all(
    [email, 'nobody@example.com'].map((given) => post('/account/forgot-password', { email: given }, page)),
  );
  expect(known!.body).toBe(unknown!.body);
  const entries = await api.orm.em.fork().find(OutboxEntry, { workflowType: 'passwordReset' });
  const { accountId } = await api.orm.em.fork().findOneOrFail(User, { userId });
  expect(entries.map(({ input }) => input)).toEqual([{ userId, accountId }]);
});

test.each([
  ['a body of 10 MiB', 'application/x-www-form-urlencoded', 'x='.padEnd(10_000_000, 'x'), 413],
  ['a form of another kind', 'multipart/form-data; boundary=x', '--x--', 415],
  ['a very long field', 'application/x-www-form-urlencoded', `email=${'x'.repeat(5000)}`, 403],
])('%s is refused with a page', async (_what, type, payload, status) => {
  const reply = await api.app.inject({
    method: 'POST',
    url: '/account/sign-in',
    headers: { 'content-type': type },
    payload,
  });
  expect([reply.statusCode, reply.headers['content-type']]).toEqual([status, 'text/html; charset=utf-8']);
});

test('the API itself accepts no forms', async () => {
  const reply = await api.app.inject({
    method: 'POST',
    url: '/v1/auth/sign-in',
    headers: { 'content-type': 'application/x-www-form-urlencoded' },
    payload: new URLSearchParams({ email, password }).toString(),
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
