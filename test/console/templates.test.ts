import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { jest } from '@jest/globals';
import { ConsoleBrowser, type ConsoleTab } from '../support/console-browser.ts';
import { newRoot, newUser, type Person } from '../support/console-people.ts';
import { LoopbackRegistry } from '../support/loopback-registry.ts';
import { anyLayer, pushImage } from '../support/pushed-image.ts';
import { RegistryFront } from '../support/registry-front.ts';
import { RunningPlatform } from '../support/running-platform.ts';
import { until } from '../support/until.ts';
import { harmOn, hostileText } from './hostile-texts.ts';

jest.setTimeout(120_000);

interface Template {
  template_id: string;
  name: string;
  status: string;
  visibility: string;
  description: string;
  template_document: string | null;
  default_cpu_count: number;
  custom_image_source: string | null;
  parent_template_id: string | null;
}

let platform: RunningPlatform;
let browser: ConsoleBrowser;
let registry: LoopbackRegistry;
let front: RegistryFront;
let folder: string;
let root: Person;
let tab: ConsoleTab;

beforeAll(async () => {
  folder = fs.mkdtempSync(path.join(os.tmpdir(), 'console-templates-'));
  registry = await LoopbackRegistry.start(folder);
  await pushImage(`http://${registry.address}`, 'team/app', { layers: [anyLayer()] });
  await pushImage(`http://${registry.address}`, 'team/large', { layers: [anyLayer(1_000_000)] });
  front = await RegistryFront.start(registry.address);
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
  await front?.stop();
  await registry?.stop();
  fs.rmSync(folder, { recursive: true, force: true });
});

const api = () => platform.client(root.apiKey);
const image = () => `${registry.address}/team/app`;
const read = async (id: string) => (await api().request<Template>('GET', `/v1/templates/${id}`)).body.data;
const button = (name: string | RegExp) => tab.page.getByRole('button', { name, exact: true });
const dialog = (name: string | RegExp) => tab.page.getByRole('dialog', { name });
const heading = (name: string | RegExp) => tab.page.getByRole('heading', { level: 1, name });
const shownId = () => new URL(tab.page.url()).pathname.split('/').pop()!;

/** A template that is based on a built-in one, so that it needs no import. */
async function addTemplate(name: string, fields: object = {}): Promise<Template> {
  const { templates } = (await api().request<{ templates: Template[] }>('GET', '/v1/templates?limit=1')).body.data;
  const base = await read(templates[0]!.template_id);
  const body = {
    ...{ name, base_template_id: base.template_id },
    ...{ template_source: (base as unknown as { template_source: string }).template_source, ...fields },
  };
  const made = await api().request<Template>('POST', '/v1/templates', body);
  expect([made.status, made.body.code, made.body.error]).toEqual([201, undefined, undefined]);
  return made.body.data;
}

test('an image is imported, and its page shows the import until the template is available', async () => {
  await tab.open('templates');
  await tab.page.getByRole('link', { name: 'New template' }).click();
  await heading('New template').waitFor();
  expect(await tab.accessibilityViolations()).toEqual([]);
  await tab.page.getByLabel(/^Name/).fill('imported-app');
  await tab.page.getByLabel('Image (required)', { exact: true }).fill(image());
  await button('Import').click();
  await heading(/imported-app.*available/).waitFor({ timeout: 90_000 });
  expect(await read(shownId())).toMatchObject({ name: 'imported-app', status: 'available' });
  await tab.open('templates/imports?status=completed');
  await tab.page.getByRole('link', { name: image() }).first().click();
  await dialog('Import').getByText('completed').waitFor();
  expect(await tab.accessibilityViolations()).toEqual([]);
});

test('an image that the registry does not have is refused or has failed, with its reason', async () => {
  await tab.open('templates/new');
  await tab.page.getByLabel(/^Name/).fill('no-such-image');
  await tab.page.getByLabel('Image (required)', { exact: true }).fill(`${registry.address}/team/missing`);
  await button('Import').click();
  await tab.page.locator('.problem').first().waitFor();
  expect(await tab.page.locator('.problem').first().textContent()).toMatch(/image|not found|registry/i);
});

test('an import is stopped while it copies, and started again', async () => {
  front.fault = { stallsAfter: 50_000 };
  await tab.open('templates/new');
  await tab.page.getByLabel(/^Name/).fill('stopped-app');
  await tab.page.getByLabel('Image (required)', { exact: true }).fill(`${front.address}/team/large`);
  await button('Import').click();
  await heading(/stopped-app/).waitFor();
  await button('Stop import').click();
  await tab.page
    .getByRole('dialog')
    .getByRole('button', { name: /^Stop import / })
    .click();
  await button('Import again').waitFor();
  expect((await read(shownId())).status).not.toBe('available');
  front.fault = {};
  await button('Import again').click();
  await heading(/stopped-app.*available/).waitFor({ timeout: 90_000 });
  expect(await button('Import again').count()).toBe(0);
});

test('a template is made for an image to import later, and imported from its page', async () => {
  await tab.open('templates/new?from=external');
  await tab.page.getByLabel(/^Name/).fill('later-app');
  await tab.page.getByLabel('Image', { exact: true }).fill(image());
  await button('Make the template').click();
  await heading(/later-app/).waitFor();
  expect((await read(shownId())).custom_image_source).toBe('external');
  await button('Import the image').click();
  await heading(/later-app.*available/).waitFor({ timeout: 90_000 });
  expect(await button('Import the image').count()).toBe(0);
});

test('a template is based on another one, edited, shared, made private, and deleted', async () => {
  const base = await addTemplate('base-of-others');
  await tab.open(`templates/${base.template_id}`);
  await tab.page.getByRole('link', { name: 'New template from this' }).click();
  await tab.page.getByLabel(/^Name/).fill('derived');
  await button('Make the template').click();
  await heading(/derived/).waitFor();
  const id = shownId();
  expect((await read(id)).parent_template_id).toBe(base.template_id);

  await button('Edit').click();
  const edit = dialog('Edit derived');
  await edit.getByText('What its sandboxes get').click();
  expect(await tab.accessibilityViolations()).toEqual([]);
  await edit.getByLabel('Description').fill('of another one');
  await edit.getByLabel('CPUs').fill('3');
  await edit.getByRole('button', { name: 'Save' }).click();
  await edit.waitFor({ state: 'hidden' });
  await tab.page.locator('main').getByText('of another one').waitFor();
  expect(await read(id)).toMatchObject({ description: 'of another one', default_cpu_count: 3 });

  await button('Share').click();
  await dialog('Share derived').getByRole('button', { name: 'Share', exact: true }).click();
  await button('Unshare').waitFor();
  expect((await read(id)).visibility).toBe('account_shared');
  const other = await browser.tabOf(await newUser(platform, root));
  await other.open(`templates/${id}`);
  await other.page.getByRole('link', { name: 'New template from this' }).waitFor();
  expect(await other.page.getByRole('button', { name: /^(Edit|Unshare|Delete|Write|Validate)$/ }).count()).toBe(0);
  await other.close();
  await button('Unshare').click();
  await dialog('Unshare: derived').getByRole('button', { name: 'Unshare derived' }).click();
  await button('Share').waitFor();
  expect((await read(id)).visibility).toBe('private');

  await button('Delete').click();
  await dialog('Delete: derived').getByRole('button', { name: 'Delete derived' }).click();
  await heading('Templates').waitFor();
  await until(async () => (await api().request('GET', `/v1/templates/${id}`)).status === 404);
});

test('the document of a template is written, shown as Markdown without what could harm, and removed', async () => {
  const { template_id: id } = await addTemplate('documented');
  await tab.page.setViewportSize({ width: 390, height: 844 });
  await tab.open(`templates/${id}`);
  await button('Write').click();
  const form = dialog('Document of documented');
  // A person cannot type control characters into a field.
  const writable = hostileText.replaceAll(/\p{Cc}/gu, '');
  const text = `# Title\n\n[bad](javascript:alert(1)) <script>alert(1)</script> ![pixel](https://example.com/p.png)\n\n${writable}`;
  await form.getByLabel('Text').fill(text);
  await form.getByText('Preview').click();
  await form.getByText('Title').last().waitFor();
  expect(await harmOn(tab)).toEqual([]);
  expect(await tab.accessibilityViolations()).toEqual([]);
  await form.getByRole('button', { name: 'Save' }).click();
  await form.waitFor({ state: 'hidden' });
  await tab.page.locator('main').getByRole('heading', { name: 'Title' }).waitFor();
  expect((await read(id)).template_document).toBe(text);
  expect(await harmOn(tab)).toEqual([]);
  expect(await tab.page.locator('main a[href^="javascript"], main script, main img[src^="http"]').count()).toBe(0);
  await button('Remove document').click();
  await dialog('Remove document: documented').getByRole('button', { name: 'Remove document documented' }).click();
  await tab.page.getByText('Nothing is written about this template.').waitFor();
  expect((await read(id)).template_document).toBeNull();
});

test('what the API refuses stands at its field, and the form keeps what was written', async () => {
  await tab.open('templates/new');
  await tab.page.getByLabel(/^Name/).fill('9-wrong');
  await tab.page.getByLabel('Image (required)', { exact: true }).fill(image());
  await tab.page.getByLabel('Description').fill('stays');
  await button('Import').click();
  await tab.page.locator('main').getByRole('alert').waitFor();
  expect(await tab.page.getByLabel(/^Name/).getAttribute('aria-invalid')).toBe('true');
  expect(await tab.page.getByLabel('Description').inputValue()).toBe('stays');
  expect(await tab.accessibilityViolations()).toEqual([]);
});

test('the list shows a template by its name, and hostile descriptions harm nothing', async () => {
  const { template_id: id } = await addTemplate('hostile-one', {
    description: hostileText.slice(0, 200),
    metadata: JSON.stringify({ [hostileText.slice(0, 100)]: hostileText }),
  });
  await tab.page.setViewportSize({ width: 390, height: 844 });
  await tab.open('templates?name=hostile-one');
  await tab.page.getByRole('link', { name: 'hostile-one' }).waitFor();
  expect(await tab.page.locator('tbody tr').count()).toBe(1);
  expect(await harmOn(tab)).toEqual([]);
  await tab.open(`templates/${id}`);
  expect(await harmOn(tab)).toEqual([]);
  await button('Edit').click();
  expect(await harmOn(tab)).toEqual([]);
});

test('the console hides a private template from other users, and the actions of a built-in one from a root user', async () => {
  const { template_id: id } = await addTemplate('kept-private');
  const other = await browser.tabOf(await newUser(platform, root));
  await other.open(`templates/${id}`);
  expect(await other.page.locator('main').getByRole('alert').textContent()).toContain('not_found');
  await other.close();
  const list = await api().request<{ templates: Template[] }>('GET', '/v1/templates?visibility=public&limit=1');
  await tab.open(`templates/${list.body.data.templates[0]!.template_id}`);
  await tab.page.getByRole('link', { name: 'New template from this' }).waitFor();
  expect(await button(/^(Edit|Share|Unshare|Delete|Write|Validate)$/).count()).toBe(0);
});
