import fs from 'node:fs';
import path from 'node:path';
import { brotliDecompressSync, gunzipSync } from 'node:zlib';
import { startApi, type TestApi } from './test-api.ts';

let api: TestApi;
beforeAll(async () => {
  api = await startApi({ env: { PLATFORM_RATE_LIMIT_PER_ADDRESS: '0' } });
});
afterAll(() => api.stop());

const get = (url: string, headers: Record<string, string> = {}) => api.app.inject({ url, headers });
const pages = async () => {
  const found = new Set<string>();
  const left = ['/guide', '/docs'];
  for (let url = left.pop(); url !== undefined; url = left.pop()) {
    if (found.has(url)) continue;
    found.add(url);
    left.push(...linksOf((await get(url)).body).filter((link) => /^\/(guide|docs)(\/|$)/.test(link)));
  }
  return [...found].sort();
};
const linksOf = (html: string) => [...html.matchAll(/ (?:href|src)="([^"#]+)(?:#[^"]*)?"/g)].map(([, link]) => link!);

test('every Markdown file of docs/ and of the clients is a page, and the reference has one for each tag', async () => {
  const root = path.join(import.meta.dirname, '../..');
  const files = fs.globSync('docs/{,guides/}*.md', { cwd: root });
  const clients = fs.globSync('clients/{,*/}README.md', { cwd: root });
  const guide = [...files, ...clients].map((file) =>
    `/guide/${file.replace(/^docs\//, '').replace(/\/?(README)?\.md$/, '')}`.replace(/\/$/, ''),
  );
  const tags = new Set(
    Object.values<object>(api.client.document.paths).flatMap((item) =>
      Object.values(item).flatMap(({ tags: each }: { tags: string[] }) => each),
    ),
  );
  const reference = [...tags].map((tag) => `/docs/${tag.toLowerCase().replace(' ', '-')}`);
  expect(await pages()).toEqual(
    expect.arrayContaining([...guide, ...reference, '/docs/events', '/docs/agent/process']),
  );
});

test('each link leads to a page of the site, and each anchor to a place on it', async () => {
  const wrong: string[] = [];
  const ids = new Map<string, Set<string>>();
  const all = new Map<string, string>();
  for (const url of await pages()) {
    const { body, headers } = await get(url);
    if (!String(headers['content-type']).startsWith('text/html')) continue;
    all.set(url, body);
    const own = [...body.matchAll(/ id="([^"]+)"/g)].map(([, id]) => id!);
    if (new Set(own).size < own.length) wrong.push(`${url} has two places with one id`);
    ids.set(url, new Set(own));
  }
  for (const [url, body] of all) {
    for (const [, target] of body.matchAll(/ (?:href|src)="([^"]*)"/g)) {
      if (/^(https?|data):/.test(target!)) continue;
      const [address = '', anchor] = target!.split('#');
      const place = address === '' ? url : address;
      if (anchor !== undefined && !ids.get(place)?.has(anchor)) wrong.push(`${url}: ${target}`);
      if (anchor === undefined && (await get(place)).statusCode !== 200) wrong.push(`${url}: ${target}`);
    }
  }
  expect(wrong).toEqual([]);
  expect(all.size).toBeGreaterThan(40);
}, 60_000);

test('no page has a script, a style or an address that the browser loads from another host', async () => {
  for (const url of await pages()) {
    const { body, headers } = await get(url);
    if (!String(headers['content-type']).startsWith('text/html')) continue;
    expect(headers).toMatchObject({
      'content-security-policy':
        "default-src 'none'; style-src 'self'; img-src 'self' data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
      'x-content-type-options': 'nosniff',
    });
    expect([url, body.match(/<script|<iframe| style=|<[^>]* on\w+=|<(?:img|link)[^>]+(?:src|href)="https?:/i)]).toEqual(
      [url, null],
    );
  }
}, 60_000);

test('the first view of the reference takes less than 20 KB over the wire, and no page more than 60', async () => {
  const wire = async (url: string) => (await get(url, { 'accept-encoding': 'gzip' })).rawPayload.length;
  expect((await wire('/docs')) + (await wire('/guide/style.css'))).toBeLessThan(20_000);
  for (const url of await pages()) {
    // Pictures load when they are scrolled to.
    if (!/\.(png|webp)$/.test(url)) expect([url, (await wire(url)) < 60_000]).toEqual([url, true]);
  }
  expect(await wire('/openapi.json')).toBeLessThan(120_000);
}, 60_000);

test.each([
  ['br', 'gzip, deflate, br, zstd', brotliDecompressSync],
  ['gzip', 'gzip;q=1.0, identity; q=0.5, *;q=0', gunzipSync],
  ['gzip', 'br;q=0, gzip', gunzipSync],
])('the OpenAPI document is sent as %s to a client that accepts %s', async (encoding, accepted, decompress) => {
  const reply = await get('/openapi.json', { 'accept-encoding': accepted });
  expect(reply.headers).toMatchObject({ 'content-encoding': encoding, vary: 'Accept-Encoding' });
  expect(JSON.parse(decompress(reply.rawPayload).toString())).toEqual((await get('/openapi.json')).json());
  const { etag } = reply.headers;
  const again = await get('/openapi.json', { 'accept-encoding': accepted, 'if-none-match': `"other", ${etag}` });
  expect([again.statusCode, again.rawPayload.length, again.headers.etag]).toEqual([304, 0, etag]);
  expect((await get('/openapi.json', { 'if-none-match': String(etag) })).statusCode).toBe(200);
});

test.each(['', 'identity', 'gzip;q=0', 'xbr', 'brotli', '*'])(
  'a client that accepts "%s" gets the document uncompressed',
  async (accepted) => {
    const reply = await get('/openapi.json', { 'accept-encoding': accepted });
    expect(reply.headers['content-encoding']).toBeUndefined();
    expect(reply.json().openapi).toBe('3.1.0');
  },
);

test('every operation of the API has its fields, a curl command and its recorded reply on the page of its tag', async () => {
  const { body } = await get('/docs/sandboxes');
  const [section] = /<section aria-labelledby="setSandboxTimeout">[\s\S]*?<\/section>/.exec(body) ?? [''];
  expect(section).toContain('<code>timeout</code>');
  expect(section).toContain('curl -sS');
  expect(section).toContain('<summary>Example</summary>');
  const operations = Object.values<object>(api.client.document.paths).flatMap((item) => Object.values(item));
  const shown = new Set<string>();
  for (const url of await pages()) {
    for (const [, id] of (await get(url)).body.matchAll(/<section aria-labelledby="([^"]+)"/g)) shown.add(id!);
  }
  expect(operations.map(({ operationId }) => operationId).filter((id) => !shown.has(id))).toEqual([]);
}, 60_000);

test('the search finds sections of the guide and operations, with misspelt and unfinished words too', async () => {
  const found = async (words: string) => linksOf((await get(`/guide/search?q=${encodeURIComponent(words)}`)).body);
  expect(await found('expiry of paused sandboxes')).toContain('/guide/lifecycle');
  expect(await found('createSandbox')).toContain('/docs/sandboxes');
  expect(await found('idempotecy')).toContain('/guide/api');
  expect(await found('kuberne')).toContain('/guide/kubernetes');
  expect((await get('/guide/search')).statusCode).toBe(200);
  expect((await get('/guide/search?q=qqqqqqq')).body).toContain('Nothing was found');
  expect((await get(`/guide/search?q=${'x'.repeat(101)}`)).statusCode).toBe(400);
});

test('searched words are text on the page', async () => {
  const { body, headers } = await get(`/guide/search?q=${encodeURIComponent('"><script>alert(1)</script>')}`);
  expect(body).not.toContain('<script>');
  expect(body).toContain('value="&#34;&#62;&#60;script&#62;');
  expect(headers['content-security-policy']).toContain("default-src 'none'");
});

test('an unknown page is not found, and no path leads out of the site', async () => {
  for (const url of [
    '/guide/none',
    '/docs/none',
    '/guide/../package.json',
    '/guide/images/../../package.json',
    '/guide/%2e%2e/x',
  ]) {
    expect([url, (await get(url)).statusCode]).toEqual([url, 404]);
  }
});
