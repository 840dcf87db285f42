import { jest } from '@jest/globals';
import type { Route } from 'playwright-core';
import { ConsoleBrowser, type ConsoleTab } from '../support/console-browser.ts';
import { newRoot, type Person } from '../support/console-people.ts';
import { RunningPlatform } from '../support/running-platform.ts';
import { until } from '../support/until.ts';
import { harmOn, hostileName, hostileText } from './hostile-texts.ts';

/** What the console shows when the platform, or something between, does not do what it should. */
jest.setTimeout(90_000);

let platform: RunningPlatform;
let browser: ConsoleBrowser;
let root: Person;
let tab: ConsoleTab;

beforeAll(async () => {
  platform = await RunningPlatform.shared();
  root = await newRoot(platform);
  await platform.client(root.apiKey).request('POST', '/v1/projects', { name: 'kept' });
  browser = await ConsoleBrowser.open(platform.env.PLATFORM_URL);
}, 180_000);
beforeEach(async () => {
  tab = await browser.tabOf(root);
});
afterEach(async () => {
  const { complaints } = tab;
  await tab.context.unrouteAll({ behavior: 'ignoreErrors' });
  await tab.close();
  expect(complaints).toEqual([]);
});
afterAll(async () => {
  await browser?.close();
  await platform?.leave();
});

const lists = /\/v1\/projects\?/;
/** Replies with this instead of the list of projects. */
const replyToList = (reply: Parameters<Route['fulfill']>[0]) => tab.page.route(lists, (route) => route.fulfill(reply));
const failure = { success: false, error: 'It broke', code: 'internal', request_id: 'req-of-failure' };
const alert = () => tab.page.locator('main').getByRole('alert');
const row = () => tab.page.getByRole('link', { name: 'kept' });

test('a failure of the API is shown with its code and request id, and trying again shows the list', async () => {
  await replyToList({ status: 500, json: failure });
  await tab.page.goto('projects');
  await alert().waitFor();
  expect(await alert().textContent()).toMatch(/It broke.*internal.*req-of-failure/);
  expect(await tab.accessibilityViolations()).toEqual([]);
  await tab.page.unroute(lists);
  await tab.page.getByRole('button', { name: 'Try again' }).click();
  await row().waitFor();
  expect(await alert().count()).toBe(0);
});

test('a platform that is busy for a moment is asked again after the time it names, and one that is busy for long is not', async () => {
  let asked = 0;
  await tab.page.route(lists, (route) => {
    asked += 1;
    const busy = { ...failure, code: 'unavailable' };
    return asked > 1 ? route.continue() : route.fulfill({ status: 503, headers: { 'retry-after': '1' }, json: busy });
  });
  await tab.page.goto('projects');
  await row().waitFor();
  expect(asked).toBe(2);
  await tab.page.unroute(lists);
  await replyToList({ status: 503, headers: { 'retry-after': '3600' }, json: { ...failure, code: 'unavailable' } });
  await tab.page.goto('projects');
  await alert().waitFor();
  expect(await alert().textContent()).toContain('unavailable');
});

test.each([
  ['a refusal in HTML', 502, '<h1>Bad gateway</h1>', 'http_502'],
  ['a success in HTML', 200, '<h1>Please sign in to the network</h1>', 'not_the_platform'],
  ['JSON of another program', 502, '{"error":{"message":"no upstream"},"details":"none"}', 'http_502'],
  ['a list instead of an object', 200, '[]', 'not_the_platform'],
])('%s from something in between is a failure, and the rest of the page stays', async (_, status, body, code) => {
  await replyToList({ status, contentType: 'text/html', body });
  await tab.page.goto('projects');
  await alert().waitFor();
  expect(await alert().textContent()).toContain(code);
  expect(await alert().textContent()).not.toMatch(/gateway|upstream|sign in/);
  await tab.page.getByRole('button', { name: 'New project' }).first().waitFor();
  expect(await tab.page.getByRole('navigation', { name: 'Pages' }).count()).toBe(1);
});

test('a reply of another shape breaks its page only, and the way to other pages stays', async () => {
  await replyToList({ status: 200, json: { success: true, data: { unknown: 1 } } });
  await tab.page.goto('projects');
  await alert().waitFor();
  await tab.page.getByRole('link', { name: 'API keys' }).click();
  await tab.page.getByRole('heading', { level: 1, name: 'API keys' }).waitFor();
  expect(await alert().count()).toBe(0);
});

test('without a connection, the page says so, keeps the rows, and shows the list when it is back', async () => {
  await tab.open('projects');
  await row().waitFor();
  await tab.page.route(lists, (route) => route.abort('connectionrefused'));
  await platform.client(root.apiKey).request('POST', '/v1/projects', { name: 'made-meanwhile' });
  await tab.page.getByRole('button', { name: 'New project' }).first().click();
  const form = tab.page.getByRole('dialog', { name: 'New project' });
  await tab.page.route(/\/v1\/projects$/, (route) => route.abort('connectionrefused'));
  await form.getByLabel('Name').fill('half-written');
  await form.getByRole('button', { name: 'Make the project' }).click();
  await form.getByRole('alert').waitFor();
  expect(await form.getByRole('alert').textContent()).toContain('unreachable');
  expect(await form.getByLabel('Name').inputValue()).toBe('half-written');
  await tab.page.unroute(/\/v1\/projects$/);
  await form.getByRole('button', { name: 'Make the project' }).click();
  await tab.page.getByRole('heading', { level: 1, name: 'half-written' }).waitFor();
  await tab.page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name: 'Projects' }).click();
  await alert().waitFor();
  expect(await row().count()).toBe(1);
  await tab.page.unroute(lists);
  await tab.page.getByRole('button', { name: 'Try again' }).click();
  await tab.page.getByRole('link', { name: 'made-meanwhile' }).waitFor();
});

test('while a reply is on its way, the page says so, and keeps the rows of before', async () => {
  let reply = () => {};
  const held = new Promise<void>((resolve) => {
    reply = resolve;
  });
  await tab.page.route(/\/v1\/api-keys\?.*limit=50/, async (route) => {
    if (route.request().url().includes('search=')) await held;
    await route.continue();
  });
  await tab.page.route(lists, async (route) => {
    await held;
    await route.continue();
  });
  await tab.page.goto('projects');
  await tab.page.locator('main').getByText('Loading …').waitFor();
  await tab.page.getByRole('link', { name: 'API keys' }).click();
  const rows = tab.page.getByRole('table', { name: 'API keys' }).getByRole('row');
  await rows.first().waitFor();
  const before = await rows.count();
  await tab.page.getByLabel('Part of the name').fill('no-key-has-this');
  await tab.page.locator('.table-frame.old').waitFor();
  expect(await rows.count()).toBe(before);
  reply();
  await tab.page.getByText('Nothing matches.').waitFor();
});

test('a refused form keeps what was written, and names the field', async () => {
  await tab.open('projects');
  await tab.page.getByRole('button', { name: 'New project' }).first().click();
  const form = tab.page.getByRole('dialog', { name: 'New project' });
  const details = [{ path: 'name', reason: 'is a word of the platform' }];
  await tab.page.route(/\/v1\/projects$/, (route) =>
    route.fulfill({ status: 400, json: { ...failure, code: 'invalid_request', details } }),
  );
  await form.getByLabel('Name').fill('a name');
  await form.getByLabel('Description').fill('two\nlines'.slice(0, 3));
  await form.getByRole('button', { name: 'Make the project' }).click();
  await form.getByRole('alert').waitFor();
  expect(await form.getByLabel('Name').getAttribute('aria-invalid')).toBe('true');
  expect(await form.getByLabel('Name').inputValue()).toBe('a name');
  expect(await form.getByLabel('Description').inputValue()).toBe('two');
  expect(await tab.accessibilityViolations()).toEqual([]);
});

test('when its files do not arrive, the page says so, and starts after a reload', async () => {
  const other = await browser.newTab();
  await other.page.route(/\/assets\/.*\.js/, (route) => route.fulfill({ status: 503, body: '' }));
  await other.page.goto('./');
  await other.page.getByText('The console has not started').waitFor();
  await other.page.unroute(/\/assets\/.*\.js/);
  await other.page.reload();
  await other.page.getByLabel('E-mail').waitFor();
  expect(await other.page.getByText('The console has not started').count()).toBe(0);
  await other.close();
});

test('files that are gone after an upgrade load the page again, once, and only when the page is opened', async () => {
  await tab.open('./');
  let loads = 0;
  tab.page.on('load', () => {
    loads += 1;
  });
  let asked = 0;
  await tab.page.route(/\/assets\/keys-.*\.js/, (route) => {
    asked += 1;
    return route.fulfill({ status: 404, json: failure });
  });
  const link = tab.page.getByRole('link', { name: 'API keys' });
  await link.hover();
  await until(() => asked > 0);
  await tab.page.getByRole('heading', { level: 1 }).waitFor();
  expect(loads).toBe(0);
  await link.click();
  await alert().waitFor();
  expect(loads).toBe(1);
  expect(tab.page.url()).toContain('/console/keys');
  await tab.page.unroute(/\/assets\/keys-.*\.js/);
  await tab.page.reload();
  await tab.page.getByRole('heading', { level: 1, name: 'API keys' }).waitFor();
});

test('a list of 5,000 with hostile names pages, runs nothing, and fits into a narrow window', async () => {
  const [total, limit] = [5000, 50];
  await tab.page.route(lists, (route) => {
    const page = Number(new URL(route.request().url()).searchParams.get('page') ?? 1);
    const now = '2026-01-01T00:00:00.000Z';
    const projects = Array.from({ length: limit }, (_, index) => ({
      ...{ project_id: `p-${page}-${index}`, name: `${hostileName} ${page}`, description: hostileText },
      ...{ is_default: false, sandbox_count: 1e6, created_at: now, updated_at: now, owner_user_id: 'u' },
      owner: { user_id: 'u', email: 'a@example.com', display_name: hostileText },
    }));
    const nextCursor = page * limit < total ? `page-${page + 1}` : null;
    const pagination = { page, limit, total, total_pages: total / limit, next_cursor: nextCursor };
    return route.fulfill({ json: { success: true, data: { projects, pagination } } });
  });
  await tab.page.setViewportSize({ width: 390, height: 844 });
  await tab.open('projects');
  const pages = tab.page.getByRole('navigation', { name: 'Pages of the list' });
  expect(await pages.textContent()).toContain('1–50 of 5,000');
  expect(await pages.getByRole('button', { name: 'Previous' }).isDisabled()).toBe(true);
  expect(await harmOn(tab)).toEqual([]);
  await pages.getByRole('button', { name: 'Next' }).click();
  await pages.getByText('51–100 of 5,000').waitFor();
  expect(tab.page.url()).toContain('page=2');
  await tab.open('projects?page=100');
  await pages.getByText('4,951–5,000 of 5,000').waitFor();
  expect(await pages.getByRole('button', { name: 'Next' }).isDisabled()).toBe(true);
  await tab.page.goBack();
  await pages.getByText('51–100 of 5,000').waitFor();
  expect(await harmOn(tab)).toEqual([]);
});

test('an address that does not exist, and an object that does not, say so', async () => {
  await tab.page.goto('no/such/page');
  await tab.page.getByRole('heading', { level: 1 }).waitFor();
  expect(await tab.page.getByRole('heading', { level: 1 }).textContent()).toMatch(
    /no such page|not found|does not exist/i,
  );
  await tab.page.goto('projects/00000000-0000-4000-8000-000000000000');
  await alert().waitFor();
  expect(await alert().textContent()).toMatch(/project_not_found|not_found/);
});
