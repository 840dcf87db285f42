import { jest } from '@jest/globals';
import { ConsoleBrowser, type ConsoleTab } from '../support/console-browser.ts';
import { newRoot, newUser, type Person } from '../support/console-people.ts';
import { RunningPlatform } from '../support/running-platform.ts';
import { harmOn, hostileName, hostileText } from './hostile-texts.ts';

jest.setTimeout(90_000);

let platform: RunningPlatform;
let browser: ConsoleBrowser;
let root: Person;
let user: Person;
let tab: ConsoleTab;

beforeAll(async () => {
  platform = await RunningPlatform.shared();
  root = await newRoot(platform);
  browser = await ConsoleBrowser.open(platform.env.PLATFORM_URL);
}, 180_000);
beforeEach(async () => {
  // A user may have few active keys.
  user = await newUser(platform, root);
  tab = await browser.tabOf(user);
});
afterEach(async () => {
  const { complaints } = tab;
  await tab.close();
  expect(complaints).toEqual([]);
});
afterAll(async () => {
  await browser?.close();
  await platform?.leave();
});

interface Key {
  key_id: string;
  name: string;
  description: string;
  is_active: boolean;
}
const keys = async () =>
  (await platform.client(user.apiKey).request<{ api_keys: Key[] }>('GET', '/v1/api-keys')).body.data.api_keys;
const addKey = async (name: string, description = '') => {
  const made = await fetch(`${platform.env.PLATFORM_URL}/v1/api-keys`, {
    ...{ method: 'POST', body: JSON.stringify({ name, description }) },
    headers: { authorization: `Bearer ${await token()}`, 'content-type': 'application/json' },
  });
  const { data } = (await made.json()) as { data: Key & { api_key: string } };
  expect(made.status).toBe(201);
  return data;
};
const token = async () => {
  const { email, password } = user;
  const reply = await platform
    .client(null)
    .request<{ access_token: string }>('POST', '/v1/auth/sign-in', { email, password });
  return reply.body.data.access_token;
};
const button = (name: string | RegExp) => tab.page.getByRole('button', { name, exact: true });
const dialog = (name: string | RegExp) => tab.page.getByRole('dialog', { name });
const row = (name: string) => tab.page.getByRole('row').filter({ hasText: name });
const status = (key: string | undefined) => platform.client(key ?? null).request('GET', '/v1/users/me');

test('a new key is shown once, works, and is in no address and no storage', async () => {
  await tab.open('keys');
  await button('New key').first().click();
  const form = dialog('New key');
  expect(await tab.accessibilityViolations()).toEqual([]);
  await form.getByLabel('Name').fill('nightly builds');
  await form.getByRole('button', { name: 'Make the key' }).click();
  const shown = dialog('Key nightly builds');
  expect(await tab.accessibilityViolations()).toEqual([]);
  await shown.getByRole('button', { name: 'Copy Key', exact: true }).click();
  const key = await tab.page.evaluate<string>('navigator.clipboard.readText()');
  expect((await status(key)).status).toBe(200);
  expect(await tab.page.content()).not.toContain(key);
  await shown.getByRole('button', { name: 'Show' }).first().click();
  expect(await shown.locator('code').first().textContent()).toBe(key);
  await tab.page.keyboard.press('Escape');
  expect(await shown.getByRole('alert').textContent()).toContain('cannot be shown again');
  await shown.getByRole('button', { name: 'I have kept the key' }).click();
  await row('nightly builds').waitFor();
  expect(await tab.page.content()).not.toContain(key);
  expect(tab.page.url()).not.toContain(key.slice(4));
  const stored = 'JSON.stringify([{ ...localStorage }, { ...sessionStorage }])';
  expect(await tab.page.evaluate<string>(stored)).not.toContain(key.slice(4));
});

test('what is copied for a client has the key, which the page does not show', async () => {
  await tab.open('keys');
  await button('New key').first().click();
  await dialog('New key').getByLabel('Name').fill('for a client');
  await button('Make the key').click();
  const shown = dialog('Key for a client');
  const guides = shown.locator('details');
  for (let index = 0; index < (await guides.count()); index++) {
    await guides.nth(index).locator('summary').click();
    const copy = guides.nth(index).getByRole('button', { name: /^Copy for/ });
    let copied = '';
    for (let step = 0; step < (await copy.count()); step++) {
      await copy.nth(step).click();
      copied += await tab.page.evaluate<string>('navigator.clipboard.readText()');
    }
    expect(copied).toMatch(/spk_\w{10}|e2b_\w{10}/);
    expect(await guides.nth(index).textContent()).not.toMatch(/spk_\w{10}|e2b_\w{10}/);
  }
  expect(await harmOn(tab)).toEqual([]);
  await shown.getByRole('button', { name: 'I have kept the key' }).click();
});

test('a key is renamed, disabled, enabled and deleted', async () => {
  const { key_id, api_key } = await addKey('first name');
  const read = async () => (await keys()).find((each) => each.key_id === key_id);
  await tab.open('keys');
  await row('first name')
    .getByRole('button', { name: /^Edit|^Rename/ })
    .click();
  const form = tab.page.getByRole('dialog');
  await form.getByLabel('Name').fill('second name');
  await form.getByRole('button', { name: 'Save' }).click();
  await row('second name').waitFor();
  expect(await read()).toMatchObject({ name: 'second name' });
  await button('Disable second name').click();
  await button('Enable second name').click({ trial: true });
  expect((await status(api_key)).status).toBe(401);
  await button('Enable second name').click();
  await button('Disable second name').waitFor();
  expect((await status(api_key)).status).toBe(200);
  await row('second name')
    .getByRole('button', { name: /^Delete/ })
    .click();
  const question = dialog('Delete: second name');
  expect(await tab.accessibilityViolations()).toEqual([]);
  await question.getByRole('button', { name: 'Cancel' }).click();
  expect(await read()).toBeDefined();
  await row('second name')
    .getByRole('button', { name: /^Delete/ })
    .click();
  await question.getByRole('button', { name: 'Delete second name' }).click();
  await row('second name').waitFor({ state: 'detached' });
  expect(await read()).toBeUndefined();
  expect((await status(api_key)).status).toBe(401);
});

test('a name that is taken is refused, and stays in the form', async () => {
  await addKey('taken');
  await tab.open('keys');
  await button('New key').first().click();
  const form = dialog('New key');
  await form.getByLabel('Name').fill('taken');
  await form.getByRole('button', { name: 'Make the key' }).click();
  await form.getByRole('alert').waitFor();
  expect(await form.getByRole('alert').textContent()).toContain('taken');
  expect(await form.getByLabel('Name').inputValue()).toBe('taken');
});

test('the list shows the keys of a status and of a part of the name', async () => {
  await addKey('alpha of the list');
  await addKey('beta of the list');
  await tab.open('keys');
  await row('beta of the list').waitFor();
  await tab.page.getByLabel('Part of the name').fill('alpha of');
  await row('beta of the list').waitFor({ state: 'detached' });
  expect(await row('alpha of the list').count()).toBe(1);
  await tab.page.getByLabel('Status').selectOption('inactive');
  await tab.page.getByText('Nothing matches.').waitFor();
  await button('Show all').click();
  await row('beta of the list').waitFor();
});

test('a root user sees the keys of others with their owner, and a user without rights only their own', async () => {
  await addKey('key of the user');
  const ofRoot = await browser.tabOf(root);
  await ofRoot.open('keys');
  const found = ofRoot.page.getByRole('row').filter({ hasText: 'key of the user' });
  await found.waitFor();
  expect(await found.getByRole('cell').nth(1).textContent()).not.toBe('');
  const mine = (await platform.client(root.apiKey).request<{ api_keys: Key[] }>('GET', '/v1/api-keys')).body.data;
  await ofRoot.close();
  await tab.open('keys');
  await row('key of the user').waitFor();
  expect(await tab.page.getByRole('columnheader', { name: 'Owner' }).count()).toBe(0);
  expect(await tab.page.getByRole('row').count()).toBe((await keys()).length + 1);
  expect(mine.api_keys.length).toBeGreaterThan((await keys()).length);
});

test('hostile names run nothing, turn nothing around, and fit into a narrow window', async () => {
  await addKey(hostileName, hostileText);
  await tab.page.setViewportSize({ width: 390, height: 844 });
  await tab.open('keys');
  expect(await harmOn(tab)).toEqual([]);
  await row('<img')
    .getByRole('button', { name: /^Delete/ })
    .click();
  expect(await harmOn(tab)).toEqual([]);
  await button('Cancel').click();
  await row('<img')
    .getByRole('button', { name: /^Edit|^Rename/ })
    .click();
  await tab.page.getByRole('dialog').waitFor();
  expect(await harmOn(tab)).toEqual([]);
  expect(await tab.accessibilityViolations()).toEqual([]);
});
