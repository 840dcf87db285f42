import { jest } from '@jest/globals';
import type { SandboxView } from '../../ops/development/client/platform-client.ts';
import { ConsoleBrowser, type ConsoleTab } from '../support/console-browser.ts';
import { newRoot, newUser, type Person } from '../support/console-people.ts';
import { RunningPlatform } from '../support/running-platform.ts';
import { until } from '../support/until.ts';
import { harmOn, hostileName, hostileText } from './hostile-texts.ts';

jest.setTimeout(120_000);

interface Project {
  project_id: string;
  name: string;
  description: string;
  is_default: boolean;
}

let platform: RunningPlatform;
let browser: ConsoleBrowser;
let root: Person;
let user: Person;
let tab: ConsoleTab;

beforeAll(async () => {
  platform = await RunningPlatform.shared();
  root = await newRoot(platform);
  user = await newUser(platform, root);
  browser = await ConsoleBrowser.open(platform.env.PLATFORM_URL);
}, 180_000);
beforeEach(async () => {
  tab = await browser.tabOf(user);
});
afterEach(async () => {
  const { complaints } = tab;
  await tab.close();
  const { data } = (await api().request<{ sandboxes: SandboxView[] }>('GET', '/v1/sandboxes')).body;
  await Promise.all(data.sandboxes.map(({ sandbox_id }) => api().deleteSandbox(sandbox_id)));
  expect(complaints).toEqual([]);
});
afterAll(async () => {
  await browser?.close();
  await platform?.leave();
});

const api = () => platform.client(user.apiKey);
async function addProject(name: string, description = ''): Promise<Project> {
  const made = await api().request<Project>('POST', '/v1/projects', { name, description });
  expect([made.status, made.body.code]).toEqual([201, undefined]);
  return made.body.data;
}
const read = async (id: string) => (await api().request<Project>('GET', `/v1/projects/${id}`)).body.data;
const button = (name: string | RegExp) => tab.page.getByRole('button', { name, exact: true });
const dialog = (name: string | RegExp) => tab.page.getByRole('dialog', { name });

test('a project is made, edited, made the default, and deleted', async () => {
  const before = await addProject('default of before');
  await tab.open('projects');
  await button('New project').first().click();
  const form = dialog('New project');
  expect(await tab.accessibilityViolations()).toEqual([]);
  await form.getByLabel('Name').fill('Enterprise');
  await form.getByLabel('Description').fill('Starship');
  await form.getByRole('button', { name: 'Make the project' }).click();
  await tab.page.getByRole('heading', { level: 1, name: 'Enterprise' }).waitFor();
  const id = new URL(tab.page.url()).pathname.split('/').pop()!;
  expect(await read(id)).toMatchObject({ name: 'Enterprise', description: 'Starship', is_default: false });

  await button('Edit').click();
  const edit = dialog('Edit Enterprise');
  await edit.getByLabel('Name').fill('Defiant');
  await edit.getByLabel('Description').fill('');
  await edit.getByRole('button', { name: 'Save' }).click();
  await tab.page.getByRole('heading', { level: 1, name: 'Defiant' }).waitFor();
  expect(await read(id)).toMatchObject({ name: 'Defiant', description: '' });

  await button('Make default').click();
  await button('Make default').waitFor({ state: 'detached' });
  expect((await read(id)).is_default).toBe(true);
  expect(await button('Delete').count()).toBe(0);

  await tab.open(`projects/${before.project_id}`);
  await button('Make default').click();
  await button('Make default').waitFor({ state: 'detached' });
  await tab.open(`projects/${id}`);
  await button('Delete').click();
  const question = dialog('Delete: Defiant');
  expect(await tab.accessibilityViolations()).toEqual([]);
  await question.getByRole('button', { name: 'Delete Defiant' }).click();
  await tab.page.getByRole('heading', { level: 1, name: 'Projects' }).waitFor();
  expect((await api().request('GET', `/v1/projects/${id}`)).status).toBe(404);
});

test('a name that is taken is refused, and the form keeps what was written', async () => {
  await addProject('taken name');
  await tab.open('projects');
  await button('New project').first().click();
  const form = dialog('New project');
  await form.getByLabel('Name').fill('taken name');
  await form.getByLabel('Description').fill('written');
  await form.getByRole('button', { name: 'Make the project' }).click();
  await form.getByRole('alert').waitFor();
  expect(await form.getByRole('alert').textContent()).toContain('taken');
  expect(await form.getByLabel('Description').inputValue()).toBe('written');
});

test('a sandbox goes into a project, to another one, and back to the default project', async () => {
  const [first, second] = [await addProject('first place'), await addProject('second place')];
  const { sandbox_id } = await api().createSandbox({ name: 'traveller', cpu_count: 1, memory_mb: 128, storage_gb: 1 });
  const place = async () => (await api().sandbox(sandbox_id)).project_id;
  const home = await place();
  await tab.open(`projects/${first.project_id}`);
  await button('Add a sandbox').click();
  const add = dialog('Add a sandbox to first place');
  await add.getByLabel('Sandbox').selectOption({ value: sandbox_id });
  expect(await tab.accessibilityViolations()).toEqual([]);
  await add.getByRole('button', { name: 'Add', exact: true }).click();
  const row = tab.page.getByRole('row').filter({ hasText: 'traveller' });
  await row.waitFor();
  expect(await place()).toBe(first.project_id);

  await row.getByRole('button', { name: 'Move', exact: true }).click();
  const move = dialog('Move traveller');
  await move.getByLabel('Project').selectOption({ label: 'second place' });
  await move.getByRole('button', { name: 'Move', exact: true }).click();
  await row.waitFor({ state: 'detached' });
  expect(await place()).toBe(second.project_id);

  await tab.open(`projects/${second.project_id}`);
  await button('Delete').click();
  const question = dialog('Delete: second place');
  await question.getByRole('button', { name: 'Delete second place' }).click();
  await question.getByRole('alert').waitFor();
  expect(await question.getByRole('alert').textContent()).toMatch(/not_empty|sandboxes/);
  await question.getByRole('button', { name: 'Cancel' }).click();
  await row.getByRole('button', { name: 'Remove' }).click();
  await dialog('Remove: traveller').getByRole('button', { name: 'Remove traveller' }).click();
  await until(async () => (await place()) === home);
  await row.waitFor({ state: 'detached' });
});

test('a root user sees the owner of each project, and a user without rights only their own projects', async () => {
  await addProject('of the user');
  const { body } = await platform.client(root.apiKey).request<Project>('POST', '/v1/projects', { name: 'of the root' });
  const ofRoot = await browser.tabOf(root);
  await ofRoot.open('projects');
  await ofRoot.page.getByRole('link', { name: 'of the user' }).waitFor();
  expect(await ofRoot.page.getByRole('columnheader', { name: 'Owner' }).count()).toBe(1);
  await ofRoot.close();
  await tab.open('projects');
  await tab.page.getByRole('link', { name: 'of the user' }).waitFor();
  expect(await tab.page.getByRole('link', { name: 'of the root' }).count()).toBe(0);
  expect(await tab.page.getByRole('columnheader', { name: 'Owner' }).count()).toBe(0);
  await tab.open(`projects/${body.data.project_id}`);
  expect(await tab.page.locator('main').getByRole('alert').textContent()).toContain('not_found');
  expect(await button('Edit').count()).toBe(0);
});

test('hostile names run nothing, turn nothing around, and fit into a narrow window', async () => {
  const { project_id } = await addProject(hostileName, hostileText);
  await tab.page.setViewportSize({ width: 390, height: 844 });
  for (const address of ['projects', `projects/${project_id}`]) {
    await tab.open(address);
    expect([address, await harmOn(tab)]).toEqual([address, []]);
  }
  for (const action of ['Edit', 'Add a sandbox', 'Delete']) {
    await button(action).click();
    await tab.page.getByRole('dialog').waitFor();
    expect([action, await harmOn(tab)]).toEqual([action, []]);
    await tab.page.keyboard.press('Escape');
    await tab.page.getByRole('dialog').waitFor({ state: 'hidden' });
  }
});
