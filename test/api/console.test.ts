import { createApp } from '../../api/app.ts';
import { startApi, type TestApi } from './test-api.ts';

let api: TestApi;

beforeAll(async () => {
  api = await startApi({ env: { PLATFORM_RATE_LIMIT_PER_ADDRESS: '0' } });
});
afterAll(() => api.stop());

const get = (url: string, headers: Record<string, string> = {}) => api.app.inject({ url, headers });

test('/ leads to the console, and every address of it has the same document', async () => {
  const start = await get('/');
  expect([start.statusCode, start.headers.location]).toEqual([302, '/console/']);
  const [first, deep] = await Promise.all([
    get('/console/'),
    get('/console/sandboxes/sbx-5k2vq8m3w7xj4r6t9ypz?page=2'),
  ]);
  expect([first.statusCode, first.headers['content-type']]).toEqual([200, 'text/html; charset=utf-8']);
  expect(first.body).toContain('<base href="/console/"');
  expect(deep.body).toBe(first.body);
  expect(first.headers).toMatchObject({
    'cache-control': 'no-cache',
    'referrer-policy': 'no-referrer',
    'x-content-type-options': 'nosniff',
    'x-frame-options': 'DENY',
  });
});

test('the policy allows no inline script, no style sheet in the document, and no other origin', async () => {
  const { headers, body } = await get('/console/');
  const policy = String(headers['content-security-policy']).split('; ');
  expect(policy).toEqual(expect.arrayContaining(["default-src 'none'", "script-src 'self'", "style-src 'self'"]));
  expect(policy).toEqual(
    expect.arrayContaining(["connect-src 'self'", "frame-ancestors 'none'", "form-action 'self'"]),
  );
  expect(policy.join()).not.toMatch(/unsafe-eval|https?:|\*/);
  expect(body).not.toMatch(/<script(?![^>]*\ssrc=)|<style|\son\w+=|\sstyle=/);
});

test('files of the console are compressed as the browser asks, and cached forever by their name', async () => {
  const { body } = await get('/console/');
  const files = [...body.matchAll(/(?:src|href)="\.\/(assets\/[^"]+)"/g)].map(([, file]) => `/console/${file}`);
  expect(files.length).toBeGreaterThan(1);
  for (const file of files) {
    const [plain, compressed] = await Promise.all([get(file), get(file, { 'accept-encoding': 'gzip, br' })]);
    expect([plain.statusCode, plain.headers['content-encoding']]).toEqual([200, undefined]);
    expect(compressed.headers).toMatchObject({
      'content-encoding': 'br',
      'cache-control': 'public, max-age=31536000, immutable',
      vary: 'Accept-Encoding',
    });
    expect(compressed.rawPayload.length).toBeLessThan(plain.rawPayload.length);
  }
});

test.each(['nothing.js', 'index.html', '..%2f..%2fpackage.json', '..%2fvite.config.ts', '%00.js', 'a'.repeat(300)])(
  'a file that is not of the console, %s, is 404 without its path',
  async (name) => {
    const reply = await get(`/console/assets/${name}`);
    expect([404, 414]).toContain(reply.statusCode);
    expect(reply.body).not.toContain(process.cwd());
  },
);

test('an office behind one address can load the console at the same time', async () => {
  const settings = { ...api.dependencies.settings, PLATFORM_RATE_LIMIT_PER_ADDRESS: 600 };
  const app = createApp({ ...api.dependencies, settings });
  const { body } = await app.inject({ url: '/console/' });
  const script = /src="\.\/(assets\/[^"]+)"/.exec(body)![1];
  const statuses = await Promise.all(
    Array.from({ length: 1500 }, async () => (await app.inject({ url: `/console/${script}` })).statusCode),
  );
  expect(statuses.filter((status) => status !== 200)).toEqual([]);
  await app.close();
});

test('behind a proxy that gives the platform a path, the document and its addresses are below it', async () => {
  const settings = { ...api.dependencies.settings, PLATFORM_URL: 'https://example.com/sandboxes/' };
  const app = createApp({ ...api.dependencies, settings });
  expect((await app.inject({ url: '/' })).headers.location).toBe('/sandboxes/console/');
  expect((await app.inject({ url: '/console/' })).body).toContain('<base href="/sandboxes/console/"');
  await app.close();
});
