import { jest } from '@jest/globals';
import { ConsoleBrowser } from '../support/console-browser.ts';
import { newRoot, type Person } from '../support/console-people.ts';
import { RunningPlatform } from '../support/running-platform.ts';

jest.setTimeout(60_000);

let platform: RunningPlatform;
let browser: ConsoleBrowser;
let root: Person;

beforeAll(async () => {
  platform = await RunningPlatform.shared();
  root = await newRoot(platform);
  browser = await ConsoleBrowser.open(platform.env.PLATFORM_URL);
}, 180_000);

afterAll(async () => {
  await browser?.close();
  await platform?.leave();
});

test('a wrong password is refused with its code, and the right one leads to the address that was asked for', async () => {
  const tab = await browser.newTab();
  await tab.page.goto('projects');
  await tab.page.getByLabel('E-mail').fill(root.email);
  await tab.page.getByLabel('Password').fill('not-the-password');
  await tab.page.getByRole('button', { name: 'Sign in', exact: true }).click();
  expect(await tab.page.getByRole('alert').textContent()).toContain('invalid_credentials');
  await tab.signIn(root);
  await tab.page.getByRole('heading', { level: 1, name: 'Projects' }).waitFor();
  const cookies = await tab.context.cookies();
  expect(cookies).toEqual([expect.objectContaining({ httpOnly: true, sameSite: 'Strict', path: '/' })]);
  expect(await tab.page.evaluate('[document.cookie, localStorage.length]')).toEqual(['', 0]);
  await tab.close();
});

test('when the session ends while somebody writes, the page and the text stay until the next sign-in', async () => {
  const tab = await browser.tabOf(root);
  await tab.open('sandboxes/new');
  await tab.page.getByLabel('Name', { exact: true }).fill('half-written');
  await platform.client(null).request('GET', '/healthz');
  await tab.context.clearCookies();
  await tab.page.getByRole('button', { name: /Make|Create/ }).click();
  const dialog = tab.page.getByRole('dialog', { name: 'Your session has ended' });
  await dialog.getByLabel('Password').fill(root.password);
  await dialog.getByRole('button', { name: 'Sign in', exact: true }).click();
  await dialog.waitFor({ state: 'hidden' });
  expect(await tab.page.getByLabel('Name', { exact: true }).inputValue()).toBe('half-written');
  await tab.close();
});

test('signing out in one tab ends the session of the other', async () => {
  const first = await browser.tabOf(root);
  const second = await first.context.newPage();
  await second.goto('projects');
  await second.getByRole('heading', { level: 1, name: 'Projects' }).waitFor();
  await first.page.getByRole('button', { name: root.email }).click();
  await first.page.getByRole('button', { name: 'Sign out' }).click();
  await first.page.getByRole('heading', { name: 'Sign in' }).waitFor();
  await second.getByRole('link', { name: 'API keys' }).click();
  const dialog = second.getByRole('dialog', { name: 'Your session has ended' });
  await dialog.waitFor();
  expect(await dialog.getByLabel('E-mail').inputValue()).toBe(root.email);
  await first.close();
});

test('back and forward show the list as it was filtered', async () => {
  const tab = await browser.tabOf(root);
  await tab.open('sandboxes');
  await tab.page.getByLabel('Status').selectOption('paused');
  await tab.page.waitForURL(/status=paused/);
  await tab.page.getByRole('link', { name: 'Templates' }).first().click();
  await tab.page.getByRole('heading', { level: 1, name: 'Templates' }).waitFor();
  await tab.page.goBack();
  await tab.page.getByRole('heading', { level: 1, name: 'Sandboxes' }).waitFor();
  expect(await tab.page.getByLabel('Status').inputValue()).toBe('paused');
  await tab.page.goBack();
  await tab.page.waitForURL((url) => !url.search.includes('status'));
  expect(await tab.page.getByLabel('Status').inputValue()).toBe('');
  await tab.page.goForward();
  expect(await tab.page.getByLabel('Status').inputValue()).toBe('paused');
  await tab.close();
});

test('keys lead to pages, to the search and to the help, but not while somebody writes', async () => {
  const tab = await browser.tabOf(root);
  const { keyboard } = tab.page;
  await tab.open('./');
  await keyboard.press('g');
  await keyboard.press('s');
  await tab.page.getByRole('heading', { level: 1, name: 'Sandboxes' }).waitFor();
  await keyboard.press('?');
  await tab.page.getByRole('dialog', { name: 'Keyboard' }).waitFor();
  await keyboard.press('Escape');
  await tab.page.getByRole('dialog').waitFor({ state: 'hidden' });
  await keyboard.press('/');
  await keyboard.type('g?s');
  expect(await tab.page.getByRole('searchbox', { name: 'Search sandboxes, or go to an id' }).inputValue()).toBe('g?s');
  expect(await tab.page.getByRole('dialog').count()).toBe(0);
  await tab.close();
});
