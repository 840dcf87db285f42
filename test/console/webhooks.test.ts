import { createHmac } from 'node:crypto';
import { jest } from '@jest/globals';
import { ConsoleBrowser, type ConsoleTab } from '../support/console-browser.ts';
import { newRoot, newUser, type Person } from '../support/console-people.ts';
import { RunningPlatform } from '../support/running-platform.ts';
import { until } from '../support/until.ts';
import { answerWith, WebhookReceiver } from '../support/webhook-receiver.ts';
import { harmOn, hostileText } from './hostile-texts.ts';

jest.setTimeout(90_000);

interface Webhook {
  endpoint_id: string;
  url: string;
  description: string;
  event_types: string[];
  is_active: boolean;
  has_secret: boolean;
  public_key: string;
  timeout_seconds: number;
}

let platform: RunningPlatform;
let browser: ConsoleBrowser;
let receiver: WebhookReceiver;
let root: Person;
let tab: ConsoleTab;

beforeAll(async () => {
  platform = await RunningPlatform.shared();
  root = await newRoot(platform);
  receiver = await WebhookReceiver.start();
  browser = await ConsoleBrowser.open(platform.env.PLATFORM_URL);
}, 180_000);
beforeEach(async () => {
  receiver.received.length = 0;
  receiver.answer = answerWith(200);
  tab = await browser.tabOf(root);
});
afterEach(async () => {
  const { complaints } = tab;
  await tab.close();
  const { webhooks } = (await api().request<{ webhooks: Webhook[] }>('GET', '/v1/webhooks')).body.data;
  await Promise.all(webhooks.map(({ endpoint_id }) => api().request('DELETE', `/v1/webhooks/${endpoint_id}`)));
  expect(complaints).toEqual([]);
});
afterAll(async () => {
  await browser?.close();
  await receiver?.stop();
  await platform?.leave();
});

const api = () => platform.client(root.apiKey);
async function addWebhook(fields: Partial<Webhook> = {}): Promise<Webhook> {
  const body = { url: receiver.url, event_types: ['sandbox.*'], ...fields };
  const made = await api().request<Webhook>('POST', '/v1/webhooks', body);
  expect([made.status, made.body.code]).toEqual([201, undefined]);
  return made.body.data;
}
const read = async (id: string) => (await api().request<Webhook>('GET', `/v1/webhooks/${id}`)).body.data;
const button = (name: string | RegExp) => tab.page.getByRole('button', { name, exact: true });
const dialog = (name: string | RegExp) => tab.page.getByRole('dialog', { name });

test('a webhook is made with a secret that is shown once, and signs a test event with it', async () => {
  await tab.open('webhooks');
  await button('New webhook').first().click();
  const form = dialog('New webhook');
  await form.getByLabel('Address').fill(receiver.url);
  await form.getByText('More', { exact: true }).click();
  await form.getByRole('button', { name: 'Make a secret' }).click();
  expect(await tab.accessibilityViolations()).toEqual([]);
  const secret = await form.getByLabel('Secret').inputValue();
  await form.getByRole('button', { name: 'Make the webhook' }).click();
  const kept = dialog('Keep the secret');
  await kept.getByRole('button', { name: 'Show' }).click();
  expect(await kept.locator('code').first().textContent()).toBe(secret);
  await kept.getByRole('button', { name: 'I have kept the secret' }).click();
  await tab.page.getByRole('heading', { level: 1, name: receiver.url }).waitFor();
  expect(await tab.page.content()).not.toContain(secret);

  await button('Send a test event').click();
  await dialog('Delivery').getByText('status 200').waitFor();
  const { headers, body } = receiver.received[0]!;
  const signed = `${headers['webhook-id']}.${headers['webhook-timestamp']}.${body}`;
  const hmac = createHmac('sha256', Buffer.from(secret.slice('whsec_'.length), 'base64'))
    .update(signed)
    .digest('base64');
  expect(headers['webhook-signature']).toContain(`v1,${hmac}`);
});

test('an address that the platform does not take, and no events at all, are refused in the form', async () => {
  await tab.open('webhooks');
  await button('New webhook').first().click();
  const form = dialog('New webhook');
  await form.getByLabel('Address').fill('ftp://example.com');
  await form.getByRole('button', { name: 'Make the webhook' }).click();
  await form.getByRole('alert').waitFor();
  expect(await form.getByLabel('Address').inputValue()).toBe('ftp://example.com');
  await form.getByLabel('Address').fill(receiver.url);
  await form.getByText('Sandboxes · all').click();
  await form.getByLabel(/^sandbox\.\*/).uncheck();
  await form.getByRole('button', { name: 'Make the webhook' }).click();
  expect(await form.locator('input:invalid').count()).toBe(1);
  expect((await api().request<{ webhooks: Webhook[] }>('GET', '/v1/webhooks')).body.data.webhooks).toEqual([]);
});

test('a webhook is edited, disabled, enabled and deleted', async () => {
  const { endpoint_id: id, url } = await addWebhook();
  await tab.open(`webhooks/${id}`);
  await button('Edit').click();
  const form = dialog(`Edit ${url}`);
  expect(await tab.accessibilityViolations()).toEqual([]);
  await form.getByLabel('Description').fill('for the build');
  await form.getByLabel('Timeout (seconds)').fill('7');
  await form.getByLabel('All events').check();
  await form.getByRole('button', { name: 'Save' }).click();
  await form.waitFor({ state: 'hidden' });
  await tab.page.getByText('for the build').waitFor();
  expect(await read(id)).toMatchObject({ description: 'for the build', timeout_seconds: 7, event_types: ['*'] });

  await button('Disable').click();
  await dialog(`Disable: ${url}`)
    .getByRole('button', { name: `Disable ${url}` })
    .click();
  await tab.page.getByText('This webhook is disabled').waitFor();
  expect((await read(id)).is_active).toBe(false);
  expect(await button('Send a test event').count()).toBe(0);
  await button('Enable').click();
  await button('Disable').waitFor();
  expect((await read(id)).is_active).toBe(true);

  await button('Delete').click();
  const question = dialog(`Delete: ${url}`);
  await question.getByRole('button', { name: 'Cancel' }).click();
  expect((await read(id)).endpoint_id).toBe(id);
  await button('Delete').click();
  await question.getByRole('button', { name: `Delete ${url}` }).click();
  await tab.page.getByRole('heading', { level: 1, name: 'Webhooks' }).waitFor();
  expect((await api().request('GET', `/v1/webhooks/${id}`)).status).toBe(404);
});

test('new keys take the place of the old ones', async () => {
  const { endpoint_id: id, public_key: before, url } = await addWebhook();
  await tab.open(`webhooks/${id}`);
  await button('New keys').click();
  const form = dialog(`New keys of ${url}`);
  expect(await tab.accessibilityViolations()).toEqual([]);
  await form.getByRole('button', { name: 'Make new keys' }).click();
  await form.waitFor({ state: 'hidden' });
  await until(async () => (await read(id)).public_key !== before);
  await tab.page.getByText((await read(id)).public_key).waitFor();
  expect(await tab.page.locator('main').textContent()).not.toContain(before);
});

test('a delivery that failed shows each attempt with its reply as text, and is sent again', async () => {
  receiver.answer = answerWith(400, { 'content-type': 'text/html' }, hostileText);
  const { endpoint_id: id } = await addWebhook({ max_retries: 0 } as Partial<Webhook>);
  await tab.page.setViewportSize({ width: 390, height: 844 });
  await tab.open(`webhooks/${id}`);
  await button('Send a test event').click();
  const delivery = dialog('Delivery');
  await delivery.getByText('Reply').first().click();
  expect(await delivery.locator('pre').first().textContent()).toContain('<img src=x onerror=alert(1)>');
  expect(await harmOn(tab)).toEqual([]);
  expect(await tab.accessibilityViolations()).toEqual([]);
  receiver.answer = answerWith(200);
  await button('Send again').click();
  await delivery.getByText('status 200').waitFor();
  expect(receiver.distinctIds).toHaveLength(1);
  await delivery.getByRole('button', { name: 'Close' }).click();
  await tab.page.getByRole('table', { name: 'Deliveries' }).getByText('delivered').waitFor();
  await tab.page.getByLabel('Status').selectOption('failed');
  await tab.page.getByText(/None of the newest/).waitFor();
});

test('hostile descriptions and addresses run nothing, turn nothing around, and fit into a narrow window', async () => {
  const url = `${receiver.url}/${'w'.repeat(400)}?<img src=x onerror=alert(1)>`;
  const { endpoint_id: id } = await addWebhook({ url, description: hostileText });
  await tab.page.setViewportSize({ width: 390, height: 844 });
  for (const address of ['webhooks', `webhooks/${id}`]) {
    await tab.open(address);
    expect([address, await harmOn(tab)]).toEqual([address, []]);
  }
  for (const action of ['Edit', 'Disable', 'Delete', 'New keys']) {
    await button(action).click();
    await tab.page.getByRole('dialog').waitFor();
    expect([action, await harmOn(tab)]).toEqual([action, []]);
    await tab.page.keyboard.press('Escape');
    await tab.page.getByRole('dialog').waitFor({ state: 'hidden' });
  }
});

test('a user without rights neither sees the webhooks of others nor chooses events of the account', async () => {
  const { endpoint_id: id, url } = await addWebhook({ event_types: ['payment.*'] });
  const own = await browser.tabOf(await newUser(platform, root));
  await own.open('webhooks');
  expect(await own.page.getByRole('link', { name: url }).count()).toBe(0);
  await own.page.getByRole('button', { name: 'New webhook' }).first().click();
  const form = own.page.getByRole('dialog', { name: 'New webhook' });
  await form.getByLabel('All events').waitFor();
  expect(await form.getByText('Payments').count()).toBe(0);
  expect(await form.getByLabel('Events of').count()).toBe(0);
  await own.open(`webhooks/${id}`);
  expect(await own.page.locator('main').getByRole('alert').textContent()).toContain('not_found');
  expect(await own.page.getByRole('button', { name: 'Delete' }).count()).toBe(0);
  await own.close();
});
