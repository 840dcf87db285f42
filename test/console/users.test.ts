import { randomBytes, randomUUID } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { jest } from '@jest/globals';
import { ConsoleBrowser, type ConsoleTab } from '../support/console-browser.ts';
import { newRoot, newUser, type Person } from '../support/console-people.ts';
import { RunningPlatform } from '../support/running-platform.ts';
import { until } from '../support/until.ts';
import { harmOn, hostileName, hostileText } from './hostile-texts.ts';

jest.setTimeout(90_000);

const users = '/v1/user-management/users';
interface User {
  user_id: string;
  email: string;
  username: string;
  display_name: string;
  description: string;
  status: string;
  is_root_user: boolean;
}

let platform: RunningPlatform;
let browser: ConsoleBrowser;
let root: Person;
let tab: ConsoleTab;

beforeAll(async () => {
  platform = await RunningPlatform.shared();
  root = await newRoot(platform);
  browser = await ConsoleBrowser.open(platform.env.PLATFORM_URL);
}, 180_000);
beforeEach(async () => {
  tab = await browser.tabOf(root);
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

const asRoot = () => platform.client(root.apiKey);

async function addUser(fields: Partial<User> = {}): Promise<User> {
  const username = `u${randomBytes(4).toString('hex')}`;
  const body = { email: `${randomUUID()}@example.com`, username, role: 'user', ...fields };
  const made = await asRoot().request<{ user: User }>('POST', users, body);
  expect([made.status, made.body.code]).toEqual([201, undefined]);
  return made.body.data.user;
}
const read = async (id: string) => (await asRoot().request<User>('GET', `${users}/${id}`)).body.data;
const button = (name: string | RegExp) => tab.page.getByRole('button', { name, exact: true });
const dialog = (name: string | RegExp) => tab.page.getByRole('dialog', { name });

test('a root user makes a user, and their first password, which is shown once, signs them in', async () => {
  const [email, username] = [`${randomUUID()}@example.com`, `u${randomBytes(4).toString('hex')}`];
  await tab.open('users');
  await button('New user').click();
  const form = dialog('New user');
  expect(await tab.accessibilityViolations()).toEqual([]);
  expect(await form.getByLabel('Role').count()).toBe(0);
  await form.getByLabel('E-mail').fill(email);
  await form.getByLabel('User name').fill(username);
  await form.getByText('More').click();
  await form.getByLabel('Name', { exact: true }).fill('Grace Hopper');
  await form.getByRole('button', { name: 'Make the user' }).click();
  const shown = dialog(`First password of ${username}`);
  await shown.getByRole('button', { name: 'Show' }).click();
  const password = (await shown.locator('code').first().textContent())!;
  await shown.getByRole('button', { name: 'Close' }).click();
  expect(await shown.getByRole('alert').textContent()).toContain('cannot be shown again');
  await shown.getByRole('button', { name: 'I have kept the password' }).click();
  await tab.page.getByRole('heading', { level: 1, name: 'Grace Hopper' }).waitFor();
  expect(await tab.page.content()).not.toContain(password);
  const other = await browser.newTab();
  await other.page.goto('./');
  await other.signIn({ email, password });
  expect(await other.page.getByRole('link', { name: 'Users' }).count()).toBe(0);
  await other.close();
});

test('what the API refuses stands at its field, and the form stays', async () => {
  const { email } = await addUser();
  await tab.open('users');
  await button('New user').click();
  const form = dialog('New user');
  await form.getByLabel('E-mail').fill('nobody');
  await form.getByLabel('User name').fill('-wrong-');
  await form.getByRole('button', { name: 'Make the user' }).click();
  await form.getByRole('alert').waitFor();
  expect(await form.getByLabel('User name').getAttribute('aria-invalid')).toBe('true');
  expect(await tab.accessibilityViolations()).toEqual([]);
  await form.getByLabel('E-mail').fill(email);
  await form.getByLabel('User name').fill(`u${randomBytes(4).toString('hex')}`);
  await form.getByRole('button', { name: 'Make the user' }).click();
  await form.getByText('email_taken').waitFor();
  expect(await form.getByLabel('E-mail').inputValue()).toBe(email);
});

test('a user is edited, disabled, enabled and deleted, each after its question', async () => {
  const user = await addUser({ display_name: 'Ada' });
  await tab.open(`users/${user.user_id}`);
  await button('Edit').click();
  const form = dialog(`Edit ${user.username}`);
  await form.getByLabel('Name', { exact: true }).fill('Countess of Lovelace');
  await form.getByLabel('Description').fill('Wrote the first program');
  await form.getByLabel('Root user').check();
  await form.getByRole('button', { name: 'Save' }).click();
  await tab.page.getByRole('heading', { level: 1, name: 'Countess of Lovelace' }).waitFor();
  expect(await read(user.user_id)).toMatchObject({
    ...{ display_name: 'Countess of Lovelace', description: 'Wrote the first program', is_root_user: true },
  });

  await button('Disable').click();
  const question = dialog(`Disable: ${user.username}`);
  expect(await tab.accessibilityViolations()).toEqual([]);
  await question.getByRole('button', { name: 'Cancel' }).click();
  expect((await read(user.user_id)).status).toBe('enabled');
  await button('Disable').click();
  await question.getByRole('button', { name: `Disable ${user.username}` }).click();
  await button('Enable').waitFor();
  expect((await read(user.user_id)).status).toBe('disabled');
  await button('Enable').click();
  await button('Disable').waitFor();
  expect((await read(user.user_id)).status).toBe('enabled');

  await button('Delete').click();
  await dialog(`Delete: ${user.username}`)
    .getByRole('button', { name: `Delete ${user.username}` })
    .click();
  await tab.page.getByRole('heading', { level: 1, name: 'Users' }).waitFor();
  await until(async () => (await asRoot().request('GET', `${users}/${user.user_id}`)).status === 404);
});

test('a link to a new password is mailed to a user', async () => {
  const user = await addUser();
  await tab.open(`users/${user.user_id}`);
  await button('Mail a link to a new password').click();
  await tab.page.locator('.notices').getByText(`A link to a new password is sent to ${user.email}`).waitFor();
  const mails = path.join(platform.dataDir, 'mails');
  // The first mail makes the folder.
  const files = () => (fs.existsSync(mails) ? fs.readdirSync(mails) : []);
  const texts = () => files().map((file) => fs.readFileSync(path.join(mails, file), 'utf8'));
  await until(() => texts().some((text) => text.includes(user.email) && text.includes('reset-password')));
  expect(await tab.page.getByRole('alert').count()).toBe(0);
});

test('the list filters users by status, and a root user can neither disable nor delete themselves', async () => {
  const [enabled, disabled] = [await addUser(), await addUser({ status: 'disabled' })];
  await tab.open('users');
  await tab.page.getByRole('link', { name: enabled.username }).waitFor();
  await tab.page.getByLabel('Status').selectOption('disabled');
  await tab.page.getByRole('link', { name: enabled.username }).waitFor({ state: 'detached' });
  expect(await tab.page.getByRole('link', { name: disabled.username }).count()).toBe(1);
  const { user_id } = (await asRoot().request<User>('GET', '/v1/users/me')).body.data;
  await tab.open(`users/${user_id}`);
  await button('Edit').waitFor();
  expect(await button('Disable').count()).toBe(0);
  expect(await button('Delete').count()).toBe(0);
});

test('a quota of a user is set, changed and removed on their page', async () => {
  const user = await addUser();
  await tab.open(`users/${user.user_id}`);
  await button('New quota').click();
  const form = dialog('New quota');
  await form.getByLabel('CPU hours a month').fill('2');
  await form.getByLabel('Sandboxes at the same time').fill('3');
  await form.getByRole('button', { name: 'Set the quota' }).click();
  await tab.page.getByText('Sandboxes at the same time: 3 at most').waitFor();
  const allocation = async () => {
    const list = await asRoot().request<{ allocations: Record<string, unknown>[] }>(
      'GET',
      '/v1/user-management/quota-allocations',
    );
    return list.body.data.allocations.find((each) => each.user_id === user.user_id);
  };
  expect(await allocation()).toMatchObject({ cpu_seconds_monthly: 7200, concurrent_sandboxes: 3 });
  await button('Change').click();
  const change = dialog(/^Change the quota of/);
  await change.getByLabel('Sandboxes at the same time').fill('');
  await change.getByRole('button', { name: 'Save' }).click();
  await tab.page.getByText('3 at most').waitFor({ state: 'detached' });
  expect(await allocation()).toMatchObject({ cpu_seconds_monthly: 7200, concurrent_sandboxes: null });
  await button('Delete').last().click();
  await tab.page
    .getByRole('dialog')
    .getByRole('button', { name: /^Delete the quota/ })
    .click();
  await tab.page.getByText('No quota of their own').waitFor();
  expect(await allocation()).toBeUndefined();
});

test('hostile names run nothing, turn nothing around, and fit into a narrow window', async () => {
  const user = await addUser({ display_name: hostileName, description: hostileText });
  await tab.page.setViewportSize({ width: 390, height: 844 });
  for (const address of ['users', `users/${user.user_id}`, 'quotas?part=allocations', 'audit']) {
    await tab.open(address);
    expect([address, await harmOn(tab)]).toEqual([address, []]);
  }
  await tab.open(`users/${user.user_id}`);
  await button('Edit').click();
  await dialog(/^Edit/).waitFor();
  expect(await harmOn(tab)).toEqual([]);
});

test('a user without rights has no users page, and cannot read a user by the address', async () => {
  const user = await addUser();
  const own = await browser.tabOf(await newUser(platform, root));
  expect(await own.page.getByRole('link', { name: 'Users' }).count()).toBe(0);
  await own.open(`users/${user.user_id}`);
  expect(await own.page.locator('main').textContent()).not.toContain(user.email);
  expect(await own.page.getByRole('button', { name: 'Edit' }).count()).toBe(0);
  await own.close();
});
