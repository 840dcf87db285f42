import { randomUUID } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { jest } from '@jest/globals';
import { ConsoleBrowser, type ConsoleTab } from '../support/console-browser.ts';
import { newRoot, newUser, type Person } from '../support/console-people.ts';
import { RunningPlatform } from '../support/running-platform.ts';
import { until } from '../support/until.ts';
import { harmOn, hostileName, hostileText } from './hostile-texts.ts';

/** The audit log, the notifications and the profile. */
jest.setTimeout(90_000);

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

const button = (name: string | RegExp) => tab.page.getByRole('button', { name, exact: true });
const dialog = (name: string | RegExp) => tab.page.getByRole('dialog', { name });
const get = async <Data>(address: string, { apiKey } = root) =>
  (await platform.client(apiKey).request<Data>('GET', address)).body.data;

/** The mail to an address with a link to a page. @returns the link */
async function mailedLink(to: string, page: string): Promise<string> {
  const mails = path.join(platform.dataDir, 'mails');
  const find = () => {
    // The first mail makes the folder.
    const files = fs.existsSync(mails) ? fs.readdirSync(mails) : [];
    const texts = files
      .map((file) => fs.readFileSync(path.join(mails, file), 'utf8'))
      .map((text) =>
        text
          .replaceAll(/\r?\n[ \t]+/g, ' ')
          .replaceAll(/=\r?\n/g, '')
          .replaceAll('=3D', '='),
      );
    const text = texts.find(
      (each) => /^To: (?:.*<)?([^\s<>]+)>?\r?$/m.exec(each)?.[1] === to && each.includes(`/${page}?`),
    );
    return text && new RegExp(`http://\\S+/${page}\\?token=[\\w.~-]+`).exec(text)?.[0];
  };
  await until(() => Boolean(find()));
  return find()!;
}

describe('the audit log', () => {
  test('shows a change with who made it and what it did, and filters by operation and person', async () => {
    await platform.client(root.apiKey).request('PUT', '/v1/users/me', { display_name: 'Ada Lovelace' });
    await platform.client(root.apiKey).request('POST', '/v1/projects', { name: 'audited' });
    await tab.open('audit');
    const row = tab.page.getByRole('row', { name: /updateProfile/ }).first();
    expect(await row.textContent()).toMatch(/display name: .* is now Ada Lovelace/);
    await row.getByRole('button', { name: 'Details' }).click();
    const details = dialog('updateProfile');
    expect(await details.textContent()).toContain('Ada Lovelace');
    expect(await tab.accessibilityViolations()).toEqual([]);
    await tab.page.keyboard.press('Escape');
    await details.waitFor({ state: 'detached' });
    await tab.page.getByLabel('Operation (a part of it)').fill('createProject');
    await row.waitFor({ state: 'detached' });
    expect(await tab.page.getByRole('row', { name: /createProject/ }).count()).toBe(1);
    await tab.page.getByLabel('Who').selectOption({ label: 'Ada Lovelace' });
    await tab.page.waitForURL(/actor_user_id=usr-/);
    await tab.page.getByRole('row', { name: /createProject/ }).waitFor();
  });

  test('shows hostile values as texts, also in its details and in a narrow window', async () => {
    const body = { display_name: hostileName, description: hostileText };
    const { status } = await platform.client(root.apiKey).request('PUT', '/v1/user-management/account', body);
    expect(status).toBe(200);
    await tab.page.setViewportSize({ width: 390, height: 844 });
    await tab.open('audit?action=updateAccount');
    expect(await harmOn(tab)).toEqual([]);
    await button('Details').click();
    await dialog('updateAccount').waitFor();
    expect(await harmOn(tab)).toEqual([]);
    await tab.open('profile');
    expect(await harmOn(tab)).toEqual([]);
  });
});

describe('notifications', () => {
  interface List {
    notifications: { id: string; title: string; is_read: boolean }[];
    unread_count: number;
  }
  const list = () => get<List>('/v1/notifications');
  /** A request of a user for a quota, about which the root user is notified. */
  async function notifyRoot(reason: string): Promise<void> {
    const user = await newUser(platform, root);
    const before = (await list()).notifications.length;
    const body = { cpu_seconds_monthly: 60, template_storage_gb: 0, reason };
    await platform.client(user.apiKey).request('POST', '/v1/usage/quota-requests', body);
    await until(async () => (await list()).notifications.length === before + 1);
  }

  test('are read by opening them, marked as unread, and deleted', async () => {
    await notifyRoot('for the tests');
    await tab.open('notifications');
    const row = tab.page.getByRole('row').filter({ has: tab.page.getByRole('cell', { name: 'unread', exact: true }) });
    await row.getByRole('button').first().click();
    const shown = tab.page.getByRole('dialog');
    await shown.getByRole('link', { name: 'Quota requests' }).waitFor();
    expect(await tab.accessibilityViolations()).toEqual([]);
    await until(async () => (await list()).unread_count === 0);
    await shown.getByRole('button', { name: 'Mark as unread' }).click();
    await shown.waitFor({ state: 'detached' });
    await until(async () => (await list()).unread_count === 1);
    await row.waitFor();
    await row.getByRole('button', { name: 'Mark as read' }).click();
    await row.waitFor({ state: 'detached' });
    expect((await list()).unread_count).toBe(0);
    await tab.page.getByRole('row').last().getByRole('button', { name: 'Delete' }).click();
    await tab.page
      .getByRole('dialog')
      .getByRole('button', { name: /^Delete / })
      .click();
    await tab.page.getByText('You have no notifications').waitFor();
    expect((await list()).notifications).toEqual([]);
  });

  test('of a hostile request run nothing, and all are marked and deleted together', async () => {
    for (const reason of [hostileText, 'another']) await notifyRoot(reason);
    await tab.page.setViewportSize({ width: 390, height: 844 });
    await tab.open('notifications');
    expect(await harmOn(tab)).toEqual([]);
    for (const { id } of (await list()).notifications) {
      await tab.open(`notifications?notification=${id}`);
      await tab.page.getByRole('dialog').locator('dl').waitFor();
      expect(await harmOn(tab)).toEqual([]);
    }
    await tab.page.setViewportSize({ width: 1280, height: 900 });
    await tab.open('notifications');
    await tab.page.getByLabel('Choose all on this page').check();
    await tab.page.locator('.batch').getByRole('button', { name: 'Mark as unread' }).click();
    await tab.page.getByText('2 marked as unread').waitFor();
    expect((await list()).unread_count).toBe(2);
    await button('Mark all as read').click();
    await tab.page.getByText('2 marked as read').waitFor();
    expect((await list()).unread_count).toBe(0);
    await button('Delete all').click();
    await button('Delete all notifications').click();
    await tab.page.getByText('You have no notifications').waitFor();
    expect((await list()).notifications).toEqual([]);
  });
});

describe('the profile', () => {
  test('and the account get another name and description', async () => {
    await tab.open('profile');
    await tab.page.getByRole('region', { name: 'You' }).getByRole('button', { name: 'Edit' }).click();
    const own = dialog('Edit your profile');
    expect(await tab.accessibilityViolations()).toEqual([]);
    await own.getByLabel('Name').fill('Grace Hopper');
    await own.getByLabel('Description').fill('Compiles');
    await own.getByRole('button', { name: 'Save' }).click();
    await own.waitFor({ state: 'detached' });
    expect(await get('/v1/users/me')).toMatchObject({ display_name: 'Grace Hopper', description: 'Compiles' });
    await tab.page.getByRole('region', { name: 'Account', exact: true }).getByRole('button', { name: 'Edit' }).click();
    const account = dialog('Edit the account');
    await account.getByLabel('Name').fill('Navy');
    await account.getByRole('button', { name: 'Save' }).click();
    await account.waitFor({ state: 'detached' });
    expect(await get('/v1/users/me')).toMatchObject({ account: { display_name: 'Navy' } });
  });

  test('of a user without rights changes neither the account nor its e-mail', async () => {
    const own = await browser.tabOf(await newUser(platform, root));
    await own.open('profile');
    expect(await own.page.getByRole('button', { name: 'Edit' }).count()).toBe(1);
    expect(await own.page.getByRole('button', { name: 'Change the e-mail' }).count()).toBe(0);
    await own.open('audit');
    expect(await own.page.getByRole('table').count()).toBe(0);
    await own.close();
  });

  test('a new password ends the session, and signs in again', async () => {
    const person = await newUser(platform, root);
    const own = await browser.tabOf(person);
    await own.open('profile');
    await own.page.getByRole('button', { name: 'Change the password' }).click();
    const form = own.page.getByRole('dialog', { name: 'Change the password' });
    expect(await own.accessibilityViolations()).toEqual([]);
    await form.getByLabel('Current password').fill('not-this-one');
    await form.getByLabel('New password').fill('a-better-pass-phrase');
    await form.getByRole('button', { name: 'Change the password' }).click();
    await form.getByRole('alert').waitFor();
    await form.getByLabel('Current password').fill(person.password);
    await form.getByRole('button', { name: 'Change the password' }).click();
    const again = own.page.getByRole('dialog', { name: 'Your session has ended' });
    await again.getByLabel('Password').fill('a-better-pass-phrase');
    await again.getByRole('button', { name: 'Sign in', exact: true }).click();
    await own.page.getByRole('dialog').waitFor({ state: 'detached' });
    expect(await own.page.getByRole('heading', { level: 1, name: 'Profile' }).count()).toBe(1);
    expect(own.complaints).toEqual([]);
    await own.close();
  });

  test('a mailed link sets a new password, once', async () => {
    // Somebody who was made just now: another link is mailed after a while only.
    const email = `${randomUUID()}@example.com`;
    const made = await platform
      .client(root.apiKey)
      .request<{ initial_password: string }>('POST', '/v1/user-management/users', {
        ...{ email, username: `u${email.slice(0, 8)}`, role: 'user' },
      });
    const person = { ...root, email, password: made.body.data.initial_password };
    const own = await browser.tabOf(person);
    await own.open('profile');
    await own.page.getByRole('button', { name: 'Mail me a link to a new password' }).click();
    await own.page.goto(await mailedLink(person.email, 'reset-password'));
    expect(await own.accessibilityViolations()).toEqual([]);
    await own.page.getByLabel('New password').fill('the-next-pass-phrase');
    await own.page.getByRole('button', { name: 'Set the password' }).click();
    await own.page.getByRole('link', { name: 'Sign in' }).click();
    await own.signIn({ email: person.email, password: 'the-next-pass-phrase' });
    await own.page.goto(await mailedLink(person.email, 'reset-password'));
    await own.page.getByLabel('New password').fill('once-more-the-same');
    await own.page.getByRole('button', { name: 'Set the password' }).click();
    expect(await own.page.getByRole('alert').textContent()).toMatch(/invalid|expired|used/);
    await own.close();
  });

  test('somebody who has forgotten the password is told the same whether there is such a user or not', async () => {
    const other = await browser.newTab();
    await other.page.goto('sign-in');
    await other.page.getByRole('link', { name: 'Forgot your password?' }).click();
    await other.page.getByLabel('E-mail').fill('nobody@example.com');
    expect(await other.accessibilityViolations()).toEqual([]);
    await other.page.getByRole('button', { name: 'Send the link' }).click();
    await other.page.getByText('If a user has this e-mail, a link').waitFor();
    expect(other.complaints).toEqual([]);
    await other.close();
  });

  test('another e-mail of the account is confirmed by both addresses', async () => {
    const person = await newRoot(platform);
    const own = await browser.tabOf(person);
    const next = `next-${person.email}`;
    await own.open('profile');
    await own.page.getByRole('button', { name: 'Change the e-mail' }).click();
    const form = own.page.getByRole('dialog', { name: 'Change the e-mail of the account' });
    await form.getByLabel('New e-mail').fill(next);
    await form.getByRole('button', { name: 'Send the links' }).click();
    await own.page.getByText('Neither address has confirmed it yet.').waitFor();
    const [first, second] = [
      await mailedLink(person.email, 'confirm-email-change'),
      await mailedLink(next, 'confirm-email-change'),
    ];
    for (const [link, outcome] of [
      [first, `confirmed. ${next} must confirm it, too`],
      [second, 'The e-mail is changed'],
    ] as const) {
      await own.page.goto(link);
      expect(await own.accessibilityViolations()).toEqual([]);
      await own.page.getByRole('button', { name: 'Confirm' }).click();
      await own.page.getByText(outcome).waitFor();
      await own.page.getByRole('link', { name: 'To the console' }).waitFor();
    }
    await until(async () => (await get<{ email: string }>('/v1/users/me', person)).email === next);
    expect(own.complaints).toEqual([]);
    await own.close();
  });
});
