import { jest } from '@jest/globals';
import { ConsoleBrowser, type ConsoleTab } from '../support/console-browser.ts';
import { newRoot, newUser, type Person } from '../support/console-people.ts';
import { RunningPlatform } from '../support/running-platform.ts';
import { harmOn, hostileText } from './hostile-texts.ts';

jest.setTimeout(90_000);

interface Quota {
  user_id: string | null;
  status: string;
  cpu_seconds_monthly: number | null;
  template_storage_gb: number | null;
  concurrent_sandboxes: number | null;
  reason: string;
  review_notes: string | null;
}

let platform: RunningPlatform;
let browser: ConsoleBrowser;
let root: Person;
let user: Person;
const tabs = {} as { root: ConsoleTab; user: ConsoleTab };

beforeAll(async () => {
  platform = await RunningPlatform.shared();
  root = await newRoot(platform);
  user = await newUser(platform, root);
  browser = await ConsoleBrowser.open(platform.env.PLATFORM_URL);
  [tabs.root, tabs.user] = [await browser.tabOf(root), await browser.tabOf(user)];
}, 180_000);
afterEach(() => {
  expect([...tabs.root.complaints.splice(0), ...tabs.user.complaints.splice(0)]).toEqual([]);
});
afterAll(async () => {
  await browser?.close();
  await platform?.leave();
});

const button = ({ page }: ConsoleTab, name: string) => page.getByRole('button', { name, exact: true });
const dialog = ({ page }: ConsoleTab, name: string | RegExp) => page.getByRole('dialog', { name });
const ownRequests = async () =>
  (await platform.client(user.apiKey).request<{ requests: Quota[] }>('GET', '/v1/usage/quota-requests')).body.data
    .requests;
const allocations = async () =>
  (
    await platform
      .client(root.apiKey)
      .request<{ allocations: Quota[] }>('GET', '/v1/user-management/quota-allocations?include_inactive=true')
  ).body.data.allocations;

async function request(reason: string, cpuHours = '5'): Promise<void> {
  const { user: tab } = tabs;
  await tab.open('quotas');
  await button(tab, 'Request a quota').click();
  const form = dialog(tab, 'Request a quota');
  expect(await tab.accessibilityViolations()).toEqual([]);
  await form.getByLabel('Reason').fill(reason);
  await form.getByLabel('CPU hours a month').fill(cpuHours);
  await form.getByLabel('Images of templates, GB').fill('0');
  await form.getByRole('button', { name: 'Send the request' }).click();
  await form.waitFor({ state: 'detached' });
}

test('a user requests a quota, changes and withdraws the request', async () => {
  const { user: tab } = tabs;
  await request('for the tests');
  expect(await ownRequests()).toMatchObject([{ reason: 'for the tests', cpu_seconds_monthly: 18_000 }]);
  await button(tab, 'Change').click();
  const form = dialog(tab, 'Change your request');
  expect(await form.getByLabel('CPU hours a month').inputValue()).toBe('5');
  await form.getByLabel('CPU hours a month').fill('0.5');
  await form.getByRole('button', { name: 'Save' }).click();
  await tab.page.getByText('CPU hours a month: 0.5').waitFor();
  expect(await ownRequests()).toMatchObject([{ reason: 'for the tests', cpu_seconds_monthly: 1800 }]);
  await button(tab, 'Withdraw').click();
  await dialog(tab, 'Withdraw: your request').getByRole('button', { name: 'Withdraw your request' }).click();
  await tab.page.getByRole('cell', { name: 'withdrawn' }).waitFor();
  expect(await ownRequests()).toMatchObject([{ status: 'withdrawn' }]);
  expect(await button(tab, 'Withdraw').count()).toBe(0);
});

test('a root user approves a request, and the user then has this quota', async () => {
  const { root: tab } = tabs;
  await request('for a bench');
  await tab.open('quotas?part=requests');
  await tab.page.getByLabel('Status').selectOption('pending');
  await button(tab, 'Approve').click();
  const review = dialog(tab, 'Approve a quota request');
  expect(await review.textContent()).toContain('for a bench');
  expect(await tab.accessibilityViolations()).toEqual([]);
  await review.getByLabel('Note for the user').fill('Be quick');
  await review.getByRole('button', { name: 'Approve' }).click();
  await tab.page.getByText('Nothing matches.').waitFor();
  expect((await ownRequests())[0]).toMatchObject({ status: 'approved', review_notes: 'Be quick' });
  await tabs.user.open('quotas');
  await tabs.user.page.getByText(/CPU hours a month: 0 of 5/).waitFor();
  await tabs.user.page.getByText('Be quick').waitFor();
});

test('a rejection needs a reason, which the user reads as it was written', async () => {
  const { root: tab } = tabs;
  await request(hostileText);
  await tab.page.setViewportSize({ width: 390, height: 844 });
  await tab.open('quotas?part=requests');
  await button(tab, 'Reject').click();
  const review = dialog(tab, 'Reject a quota request');
  expect(await harmOn(tab)).toEqual([]);
  await review.getByRole('button', { name: 'Reject' }).click();
  expect((await ownRequests())[0]!.status).toBe('pending');
  await review.getByLabel('Reason (required)').fill(`No. ${hostileText}`);
  await review.getByRole('button', { name: 'Reject' }).click();
  await review.waitFor({ state: 'detached' });
  expect(await harmOn(tab)).toEqual([]);
  expect((await ownRequests())[0]!.status).toBe('denied');
  await tabs.user.page.setViewportSize({ width: 390, height: 844 });
  await tabs.user.open('quotas');
  expect(await harmOn(tabs.user)).toEqual([]);
  expect(await tabs.user.page.getByText('No. <img src=x onerror=alert(1)>⟨202E⟩').count()).toBe(1);
  for (const each of [tab, tabs.user]) await each.page.setViewportSize({ width: 1280, height: 900 });
});

test('a quota of the account is set, changed, revoked and deleted', async () => {
  const { root: tab } = tabs;
  await tab.open('quotas?part=allocations');
  await button(tab, 'New quota').click();
  const form = dialog(tab, 'New quota');
  await form.getByLabel('Sandboxes at the same time').fill('7');
  await form.getByRole('button', { name: 'Set the quota' }).click();
  const row = tab.page.getByRole('row', { name: /The account/ });
  await row.getByText('Sandboxes at the same time: 7').waitFor();
  const ofAccount = async () => (await allocations()).filter(({ user_id }) => user_id === null);
  expect(await ofAccount()).toMatchObject([{ concurrent_sandboxes: 7, status: 'active' }]);
  await row.getByRole('button', { name: 'Change' }).click();
  const change = dialog(tab, 'Change the quota of the account');
  await change.getByLabel('Sandboxes at the same time').fill('8');
  await change.getByRole('button', { name: 'Save' }).click();
  await row.getByText('Sandboxes at the same time: 8').waitFor();
  await row.getByRole('button', { name: 'Revoke' }).click();
  await tab.page.getByRole('button', { name: 'Revoke the quota of the account' }).click();
  await row.waitFor({ state: 'detached' });
  expect(await ofAccount()).toMatchObject([{ concurrent_sandboxes: 8, status: 'revoked' }]);
  await tab.page.getByLabel('Which').selectOption('true');
  await row.getByRole('button', { name: 'Delete' }).click();
  await tab.page.getByRole('button', { name: 'Delete the quota of the account' }).click();
  await row.waitFor({ state: 'detached' });
  expect(await ofAccount()).toEqual([]);
});

test('a user without rights sees neither the requests nor the quotas of others', async () => {
  const { user: tab } = tabs;
  await tab.open('quotas?part=allocations');
  expect(await tab.page.getByRole('navigation', { name: 'Parts of quotas' }).count()).toBe(0);
  expect(await button(tab, 'New quota').count()).toBe(0);
  expect(await button(tab, 'Approve').count()).toBe(0);
});
