import fs from 'node:fs';
import path from 'node:path';
import { jest } from '@jest/globals';
import { Client } from 'pg';
import { ConsoleBrowser, type ConsoleTab } from '../support/console-browser.ts';
import { newRoot, type Person } from '../support/console-people.ts';
import { RunningPlatform } from '../support/running-platform.ts';
import { type TestDatabase, testDatabase } from '../support/stack.ts';
import { until } from '../support/until.ts';
import { harmOn, hostileName, hostileText } from './hostile-texts.ts';

/** What operators do, on a platform whose host may be drained. */
jest.setTimeout(120_000);

let platform: RunningPlatform;
let database: TestDatabase;
let sql: Client;
let browser: ConsoleBrowser;
let admin: Person;
let root: Person;
let tab: ConsoleTab;

beforeAll(async () => {
  database = await testDatabase();
  platform = await RunningPlatform.onSharedServers({ DATABASE_URL: database.url });
  await platform.start();
  sql = new Client({ connectionString: database.url });
  await sql.connect();
  [admin, root] = [await newRoot(platform, '--admin'), await newRoot(platform)];
  browser = await ConsoleBrowser.open(platform.env.PLATFORM_URL);
}, 240_000);
beforeEach(async () => {
  tab = await browser.tabOf(admin);
});
afterEach(async () => {
  const { complaints } = tab;
  await tab.close();
  expect(complaints).toEqual([]);
});
afterAll(async () => {
  await browser?.close();
  await platform?.stop();
  await sql?.end();
  await platform?.hostRemains();
  platform?.removeData();
}, 120_000);

const button = (name: string | RegExp) => tab.page.getByRole('button', { name, exact: true });
const dialog = (name: string | RegExp) => tab.page.getByRole('dialog', { name });
const asAdmin = () => platform.client(admin.apiKey);
const asRoot = () => platform.client(root.apiKey);
const rowOf = ({ accountId }: Person) => tab.page.getByRole('row', { name: new RegExp(accountId) });

test('an account is found by a part of its e-mail, suspended and reopened', async () => {
  await tab.open('admin/accounts');
  await rowOf(admin).waitFor();
  await tab.page.getByLabel('Part of the name or the e-mail').fill(root.email.slice(0, 12));
  await rowOf(admin).waitFor({ state: 'detached' });
  await rowOf(root).getByRole('button', { name: 'Suspend' }).click();
  const question = dialog(`Suspend: ${root.email}`);
  expect(await tab.accessibilityViolations()).toEqual([]);
  await question.getByRole('button', { name: 'Cancel' }).click();
  expect((await asRoot().request('POST', '/v1/projects', { name: 'one' })).status).toBe(201);
  await rowOf(root).getByRole('button', { name: 'Suspend' }).click();
  await question.getByRole('button', { name: `Suspend ${root.email}` }).click();
  await rowOf(root).getByRole('button', { name: 'Reopen' }).waitFor();
  const refused = await asRoot().request('POST', '/v1/projects', { name: 'two' });
  expect([refused.status, refused.body.code]).toEqual([403, 'account_suspended']);
  await rowOf(root).getByRole('button', { name: 'Reopen' }).click();
  await button(`Reopen ${root.email}`).click();
  await rowOf(root).getByRole('button', { name: 'Suspend' }).waitFor();
  expect((await asRoot().request('POST', '/v1/projects', { name: 'two' })).status).toBe(201);
});

test('the sign-in tells a person of a suspended account that it is suspended', async () => {
  const other = await newRoot(platform);
  await asAdmin().request('PUT', `/v1/admin/accounts/${other.accountId}/status`, { status: 'suspended' });
  const own = await browser.newTab();
  await own.page.goto('./');
  await own.page.getByLabel('E-mail').fill(other.email);
  await own.page.getByLabel('Password').fill(other.password);
  await own.page.getByRole('button', { name: 'Sign in', exact: true }).click();
  expect(await own.page.getByRole('alert').textContent()).toContain('account_suspended');
  await own.close();
});

test('credit is granted and taken back, and not more than there is', async () => {
  const balance = async () =>
    (await asRoot().request<{ balance: number }>('GET', '/v1/billing/balance')).body.data.balance;
  await tab.open(`admin/accounts?search=${root.email}`);
  await rowOf(root).getByRole('button', { name: 'Credit' }).click();
  const form = dialog(`Credit of ${root.email}`);
  expect(await tab.accessibilityViolations()).toEqual([]);
  await form.getByLabel('Amount, in the currency of the plans').fill('12.5');
  await form.getByLabel('Description').fill(hostileText);
  await form.getByRole('button', { name: /^Change the credit/ }).click();
  await form.waitFor({ state: 'detached' });
  await tab.page.locator('.notices').getByText(`${root.email} got`).waitFor();
  expect(await balance()).toBe(12.5);
  await rowOf(root).getByRole('button', { name: 'Credit' }).click();
  await form.getByLabel('What').selectOption('refund');
  await form.getByLabel('Amount, in the currency of the plans').fill('13');
  await form.getByRole('button', { name: /^Change the credit/ }).click();
  await form.getByRole('alert').waitFor();
  expect(await balance()).toBe(12.5);
  await form.getByLabel('Amount, in the currency of the plans').fill('2.5');
  await form.getByRole('button', { name: /^Change the credit/ }).click();
  await form.waitFor({ state: 'detached' });
  expect(await balance()).toBe(10);
  await tab.page.setViewportSize({ width: 390, height: 844 });
  await tab.open(`billing?part=balance&account_id=${root.accountId}`);
  expect(await tab.page.getByText('Credit granted').count()).toBe(1);
  expect(await harmOn(tab)).toEqual([]);
});

test('the pages of an account with a hostile name show it alone, and run nothing', async () => {
  await asRoot().request('PUT', '/v1/user-management/account', { display_name: hostileName });
  await tab.page.setViewportSize({ width: 390, height: 844 });
  await tab.open(`admin/accounts?search=${root.email}`);
  expect(await harmOn(tab)).toEqual([]);
  const links = ['Sandboxes', 'Usage', 'Invoices', 'Payments', 'Balance', 'Audit log'];
  for (const name of links) {
    await rowOf(root).getByRole('link', { name }).click();
    await tab.page.waitForURL(/account_id=acc/);
    await tab.page.locator('.loading').first().waitFor({ state: 'detached' });
    expect([name, await tab.page.locator('main').getByRole('alert').count()]).toEqual([name, 0]);
    await tab.page.goBack();
  }
});

test('a drained host takes no sandboxes until it is undrained', async () => {
  await tab.open('admin/hosts');
  const card = tab.page.getByRole('region', { name: /^host-/ });
  const hostId = (await card.getByRole('heading').textContent())!;
  await card.getByRole('button', { name: 'Drain' }).click();
  expect(await tab.accessibilityViolations()).toEqual([]);
  await button(`Drain ${hostId}`).click();
  await card.getByRole('button', { name: 'Undrain' }).waitFor();
  const refused = await asRoot().request('POST', '/v1/sandboxes', {});
  expect(refused.status).toBeGreaterThanOrEqual(400);
  await card.getByRole('button', { name: 'Undrain' }).click();
  await button(`Undrain ${hostId}`).click();
  await card.getByRole('button', { name: 'Drain', exact: true }).waitFor();
  const { sandbox_id } = await asRoot().createSandbox({ timeout: 60 });
  await asRoot().untilStatus(sandbox_id, 'running');
  await asRoot().deleteSandbox(sandbox_id);
});

test('the workers of every kind of work ask for it', async () => {
  await tab.open('admin/workers');
  const table = tab.page.getByRole('table', { name: 'Task queues of the control workers' });
  for (const kind of ['Sandboxes', 'Webhooks', /^Images/, /^Money/, /^Upkeep/]) {
    expect(await table.getByRole('cell', { name: kind }).count()).toBeGreaterThan(0);
  }
  expect(await table.getByRole('cell', { name: 'None', exact: true }).count()).toBe(0);
});

/** Work that Temporal has refused ten times. */
async function addDeadLetter(workflowId: string, input: object, error: string): Promise<void> {
  await sql.query(
    `insert into outbox (workflow_type, workflow_id, input, attempts, refusals, last_error, dead_at, created_at)
     values ('passwordReset', $1, $2, 12, 10, $3, now(), now())`,
    [workflowId, JSON.stringify(input), error],
  );
}
const deadLetters = async () =>
  (await asAdmin().request<{ dead_letters: { workflow_id: string }[] }>('GET', '/v1/admin/dead-letters')).body.data
    .dead_letters;

test('a dead letter is retried, and what it asked for is done', async () => {
  const { user_id: userId } = (await asRoot().request<{ user_id: string }>('GET', '/v1/users/me')).body.data;
  const workflowId = `${userId}/password-reset-again`;
  await addDeadLetter(workflowId, { accountId: root.accountId, userId }, hostileText.replaceAll('\u0000', ''));
  const mails = path.join(platform.dataDir, 'mails');
  const count = () => (fs.existsSync(mails) ? fs.readdirSync(mails).length : 0);
  const before = count();
  await tab.page.setViewportSize({ width: 390, height: 844 });
  await tab.open('admin/dead-letters');
  expect(await harmOn(tab)).toEqual([]);
  await tab.page.getByRole('button', { name: `Retry ${workflowId}` }).click();
  await tab.page.getByText('There are none: everything was delivered.').waitFor();
  expect(await deadLetters()).toEqual([]);
  await until(() => count() === before + 1);
});

test('chosen dead letters are retried together', async () => {
  for (const number of [1, 2]) await addDeadLetter(`usr-none${number}/password-reset`, {}, 'refused');
  await tab.open('admin/dead-letters');
  await tab.page.getByLabel('Choose all on this page').check();
  await tab.page.locator('.batch').getByRole('button', { name: 'Retry' }).click();
  await tab.page.getByText('2 are delivered soon').waitFor();
  await until(async () => (await deadLetters()).length === 0);
  await tab.page.getByText('There are none: everything was delivered.').waitFor();
});

test('the comparison shows its differences by kind, and before the first one, that there is none', async () => {
  // A new platform compares at once.
  await until(async () => (await sql.query('delete from reconciliations where ended_at is not null')).rowCount === 1);
  await tab.open('admin/comparison');
  await tab.page.getByText('No comparison has ended yet.').waitFor();
  await sql.query(`insert into reconciliations (reconciliation_id, started_at, ended_at, reads_processor, charges_from, charges_until)
                   values ('rec-console', now(), now(), true, now() - interval '1 day', now())`);
  for (const [kind, object] of [
    ['invoice_not_booked', 'inv-abc'],
    ['charge_unknown', hostileName],
  ]) {
    await sql.query(
      `insert into reconciliation_differences (reconciliation_id, kind, object_id, account_id, expected, found)
       values ('rec-console', $1, $2, $3, '5', $4)`,
      [kind, object, root.accountId, hostileText],
    );
  }
  await tab.page.setViewportSize({ width: 390, height: 844 });
  await tab.open('admin/comparison');
  await tab.page.getByText('An issued invoice is not in the ledger').waitFor();
  expect(await harmOn(tab)).toEqual([]);
  expect(await tab.accessibilityViolations()).toEqual([]);
  await tab.page.getByLabel('Kind').selectOption('charge_unknown');
  await tab.page.getByText('An issued invoice is not in the ledger').waitFor({ state: 'detached' });
  expect(await tab.page.locator('tbody').getByRole('row').count()).toBe(1);
});
