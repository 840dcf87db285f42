import { once } from 'node:events';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import { jest } from '@jest/globals';
import { ApiReplica } from '../support/api-replica.ts';
import { ConsoleBrowser, type ConsoleTab } from '../support/console-browser.ts';
import { newRoot, type Person } from '../support/console-people.ts';
import { RunningPlatform } from '../support/running-platform.ts';

/** The console below a path of a proxy that removes the path, and that may cut connections. */
jest.setTimeout(90_000);

const prefix = '/platform';

let platform: RunningPlatform;
let replica: ApiReplica;
let proxy: http.Server;
let origin: string;
let browser: ConsoleBrowser;
let root: Person;
let tab: ConsoleTab;
/** Requests that did not begin with the path. */
let outside: string[];
/** The open streams of events. */
const streams = new Set<http.ServerResponse>();
let refusesStreams = false;

beforeAll(async () => {
  platform = await RunningPlatform.shared();
  proxy = http.createServer(forward).listen(0, '127.0.0.1');
  await once(proxy, 'listening');
  origin = `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`;
  replica = await ApiReplica.start(platform.dataDir, { PLATFORM_URL: `${origin}${prefix}/` });
  root = await newRoot(platform);
  browser = await ConsoleBrowser.open(`${origin}${prefix}`);
}, 180_000);
beforeEach(async () => {
  outside = [];
  refusesStreams = false;
  tab = await browser.newTab();
});
afterEach(async () => {
  const { complaints } = tab;
  await tab.close();
  expect(complaints).toEqual([]);
  expect(outside).toEqual([]);
});
afterAll(async () => {
  await browser?.close();
  await replica?.stop();
  proxy?.closeAllConnections();
  proxy?.close();
  await platform?.leave();
});

function forward(request: http.IncomingMessage, reply: http.ServerResponse): void {
  const { url, method, headers } = request;
  const isStream = url!.endsWith('/v1/events/stream');
  if (!url!.startsWith(`${prefix}/`)) {
    outside.push(`${method} ${url}`);
    reply.writeHead(404).end();
    return;
  }
  if (isStream && refusesStreams) {
    reply.writeHead(502).end();
    return;
  }
  const sent = http.request(replica.url + url!.slice(prefix.length), { method: method!, headers }, (upstream) => {
    reply.writeHead(upstream.statusCode!, upstream.headers);
    upstream.pipe(reply);
    if (isStream) streams.add(reply);
    reply.on('close', () => {
      streams.delete(reply);
      upstream.destroy();
    });
  });
  sent.on('error', () => reply.destroy());
  request.pipe(sent);
}

const live = (state: string) => tab.page.getByRole('status').getByText(state).waitFor({ state: 'attached' });
const isLive = () => live('Changes are shown live');

test('an address below the path asks for the password, then shows its page, also after a reload and a way back', async () => {
  await tab.page.goto('projects?name=none-of-this-name');
  await tab.signIn(root);
  await tab.page.getByRole('heading', { level: 1, name: 'Projects' }).waitFor();
  expect(new URL(tab.page.url()).pathname).toBe(`${prefix}/console/projects`);
  await tab.page.reload();
  await tab.page.getByRole('heading', { level: 1, name: 'Projects' }).waitFor();
  await tab.page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name: 'API keys' }).click();
  await tab.page.getByRole('heading', { level: 1, name: 'API keys' }).waitFor();
  await tab.page.goBack();
  await tab.page.getByRole('heading', { level: 1, name: 'Projects' }).waitFor();
  expect(new URL(tab.page.url()).search).toBe('?name=none-of-this-name');
});

test('the links to the guide and the reference lead below the path, before and after the sign-in', async () => {
  const leadBelowThePath = async (...names: string[]) => {
    for (const name of names) {
      const link = await tab.page.getByRole('link', { name, exact: true }).getAttribute('href');
      const reply = await fetch(new URL(link!, tab.page.url()));
      expect([name, reply.status]).toEqual([name, 200]);
      expect(new URL(reply.url).pathname.startsWith(`${prefix}/`)).toBe(true);
    }
  };
  await tab.page.goto('./');
  await leadBelowThePath('The first sign-in', 'Guide', 'API reference');
  await tab.signIn(root);
  await leadBelowThePath('Guide', 'API reference');
});

test('when the stream of events is cut, the page says so, connects again, and shows what was missed', async () => {
  await tab.page.goto('./');
  await tab.signIn(root);
  await tab.page.goto('sandboxes');
  await isLive();
  refusesStreams = true;
  for (const stream of streams) stream.destroy();
  await live('Live changes are lost');
  const name = 'missed';
  const missed = await platform.client(root.apiKey).createSandbox({ name, memory_mb: 128, timeout: 600 });
  refusesStreams = false;
  await isLive();
  await tab.page.getByRole('link', { name }).waitFor();
  await platform.client(root.apiKey).request('POST', `/v1/sandboxes/${missed.sandbox_id}/pause`);
  const row = tab.page.getByRole('row', { name });
  await row.getByText('paused').waitFor();
  expect(await tab.page.getByRole('row').count()).toBe(2);
  await platform.client(root.apiKey).deleteSandbox(missed.sandbox_id);
});
