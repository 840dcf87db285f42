import { randomBytes } from 'node:crypto';
import { jest } from '@jest/globals';
import type { SandboxView } from '../../ops/development/client/platform-client.ts';
import { ConsoleBrowser, type ConsoleTab } from '../support/console-browser.ts';
import { newRoot, newUser, type Person } from '../support/console-people.ts';
import { RunningPlatform } from '../support/running-platform.ts';
import { until } from '../support/until.ts';
import { harmOn, hostileText } from './hostile-texts.ts';

/** Sandboxes in the console: the list, a new one, its page, and what can be done with it. */
jest.setTimeout(120_000);

const small = { cpu_count: 1, memory_mb: 128, storage_gb: 1, timeout: 3600 };

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
  await removeSandboxes(root);
  expect(complaints).toEqual([]);
});
afterAll(async () => {
  await browser?.close();
  await platform?.leave();
});

const api = (person = root) => platform.client(person.apiKey);
const create = (wanted: object = {}, person = root) => api(person).createSandbox({ ...small, ...wanted });
const read = async ({ sandbox_id }: SandboxView) => api().sandbox(sandbox_id);

/** Also those of the account's users. */
async function removeSandboxes(person: Person): Promise<void> {
  const list = await api(person).request<{ sandboxes: SandboxView[] }>('GET', '/v1/sandboxes?limit=100');
  await Promise.all(list.body.data.sandboxes.map(({ sandbox_id }) => api(person).deleteSandbox(sandbox_id)));
}

const button = (name: string | RegExp) => tab.page.getByRole('button', { name, exact: true });
const part = (name: string) =>
  tab.page.getByRole('navigation', { name: 'Parts of the sandbox' }).getByRole('link', { name });
const section = (name: string) => tab.page.getByRole('region', { name, exact: true });
const table = () => tab.page.getByRole('table', { name: 'Sandboxes' });
const notice = (text: string | RegExp) => tab.page.getByRole('status').getByText(text);
/** The button of a dialog that asks first. */
const confirm = (name: string) => tab.page.getByRole('dialog').getByRole('button', { name, exact: true }).click();
/** Waits until the page of a sandbox shows this status. */
const showsStatus = (status: string) =>
  tab.page.getByRole('heading', { level: 1 }).getByText(status, { exact: true }).waitFor();
/** The names in the list, from above. */
const listed = () => table().locator('tbody').getByRole('link').allTextContents();
const lists = (...names: string[]) => until(async () => JSON.stringify(await listed()) === JSON.stringify(names));

describe('the list', () => {
  test('has what its filters ask for, in the order of the chosen heading', async () => {
    const [first, second] = [
      await create({ name: 'first', metadata: { team: 'blue' } }),
      await create({ name: 'second', description: 'for reports', metadata: { team: 'red' } }),
    ];
    await create({ name: 'third', metadata: { team: 'blue' } });
    await api().request('POST', `/v1/sandboxes/${second.sandbox_id}/pause`);
    const { page } = tab;
    await tab.open('sandboxes');
    await lists('third', 'second', 'first');
    await button('Name').click();
    await button('Name').click();
    await lists('first', 'second', 'third');
    await page.getByLabel('Status').selectOption('paused');
    await lists('second');
    await page.getByLabel('Status').selectOption('');
    await page.getByLabel('Metadata (key=value)').fill('team=blue');
    await lists('first', 'third');
    await page.getByLabel('Metadata (key=value)').fill('');
    await page.getByLabel('Name, description or id').fill('reports');
    await lists('second');
    await page.getByLabel('Name, description or id').fill(first.sandbox_id);
    await lists('first');
    await page.getByLabel('Project').selectOption({ label: 'Default' });
    await page.getByLabel('Name, description or id').fill('no such sandbox');
    await page.getByText('Nothing matches.').waitFor();
    await button('Show all').click();
    await lists('first', 'second', 'third');
    expect(await page.getByRole('columnheader', { name: 'Name' }).getAttribute('aria-sort')).toBe('ascending');
    expect(await tab.accessibilityViolations()).toEqual([]);
  });

  test('of more than 50 has pages, each with an address', async () => {
    const other = await newRoot(platform);
    for (let count = 0; count < 13; count++) {
      const made = await Promise.all([1, 2, 3, 4].map(() => create({ is_async: true }, other)));
      const ids = made.map(({ sandbox_id }) => sandbox_id);
      const body = { sandbox_ids: ids, force: true };
      expect((await api(other).request('POST', '/v1/sandboxes/batch-terminate', body)).status).toBe(202);
    }
    const ofOther = await browser.tabOf(other);
    await ofOther.open('sandboxes');
    await ofOther.page.getByText('1–50 of 52').waitFor();
    await ofOther.page.getByRole('button', { name: 'Next' }).click();
    await ofOther.page.getByText('51–52 of 52').waitFor();
    await ofOther.page.waitForURL(/page=2/);
    expect(await ofOther.page.getByRole('button', { name: 'Next' }).isDisabled()).toBe(true);
    await ofOther.page.getByRole('button', { name: 'Previous' }).click();
    await ofOther.page.getByText('1–50 of 52').waitFor();
    expect(ofOther.complaints).toEqual([]);
    await ofOther.close();
    await removeSandboxes(other);
  });

  test('pauses, resumes, terminates and deletes the chosen ones together, and tells which refused', async () => {
    const [one, two] = [await create({ name: 'one' }), await create({ name: 'two' })];
    await tab.open('sandboxes');
    await tab.page.getByLabel('Choose all on this page').check();
    await tab.page.getByText('2 chosen').waitFor();
    await button('Pause').click();
    await notice('2 sandboxes: done').waitFor();
    await Promise.all([one, two].map(({ sandbox_id }) => api().untilStatus(sandbox_id, 'paused')));
    await table().getByText('paused').nth(1).waitFor();

    await tab.page.getByLabel(`Choose ${one.sandbox_id}`).check();
    await button('Resume').click();
    await api().untilStatus(one.sandbox_id, 'running');
    await table().getByText('running').waitFor();

    await tab.page.getByLabel('Choose all on this page').check();
    await button('Pause').click();
    const refusal = tab.page.getByRole('alert');
    await refusal.getByText('1 refused').waitFor();
    expect(await refusal.textContent()).toContain(two.sandbox_id);
    await api().untilStatus(one.sandbox_id, 'paused');

    await button('Terminate').click();
    expect(await tab.accessibilityViolations()).toEqual([]);
    await confirm('Terminate 2 sandboxes');
    await Promise.all([one, two].map(({ sandbox_id }) => api().untilStatus(sandbox_id, 'terminated')));
    await table().getByText('terminated', { exact: true }).nth(1).waitFor();

    await tab.page.getByLabel(`Choose ${two.sandbox_id}`).check();
    await button('Delete').click();
    await confirm(`Delete ${two.sandbox_id}`);
    await lists('one');
    expect((await api().request('GET', `/v1/sandboxes/${two.sandbox_id}`)).status).toBe(404);
  });

  test('and the page of a sandbox show without a reload what another client does', async () => {
    const sandbox = await create({ name: 'watched' });
    const second = await tab.context.newPage();
    await second.goto(`sandboxes/${sandbox.sandbox_id}`);
    await second.getByRole('heading', { level: 1 }).getByText('running').waitFor();
    await tab.open('sandboxes');
    await table().getByText('running').waitFor();
    await tab.page.evaluate('globalThis.isSamePage = true');
    await api().request('POST', `/v1/sandboxes/${sandbox.sandbox_id}/pause`);
    await table().getByText('paused').waitFor();
    await second.getByRole('heading', { level: 1 }).getByText('paused').waitFor();
    await create({ name: 'newcomer' });
    await lists('newcomer', 'watched');
    await api().deleteSandbox(sandbox.sandbox_id);
    await lists('newcomer');
    await second.getByText('This sandbox is deleted.').waitFor();
    expect(await tab.page.evaluate('globalThis.isSamePage')).toBe(true);
  });
});

describe('the form for a new sandbox', () => {
  test('makes one with environment, metadata and ports', async () => {
    const { page } = tab;
    await tab.open('sandboxes');
    await page.getByRole('link', { name: 'New sandbox' }).click();
    await page.getByLabel('Name', { exact: true }).fill('by-form');
    await page.getByLabel('CPUs').fill('1');
    await page.getByLabel('Memory (MB)').fill('256');
    await page.getByLabel('Disk (GB)').fill('2');
    await page.getByLabel('Timeout in seconds').fill('900');
    await page.getByLabel('Pause at the timeout').check();
    for (const [title, name, value] of [
      ['Environment', 'GREETING', 'hello there'],
      ['Description and metadata', 'team', 'blue'],
    ] as const) {
      await page.getByText(title, { exact: true }).click();
      const pairs = page.getByRole('group', { name: /^(Environment variables|Metadata)$/ }).last();
      await pairs.getByRole('button', { name: 'Add' }).click();
      await pairs.getByLabel(/name 1$/).fill(name);
      await pairs.getByLabel(/value 1$/).fill(value);
    }
    await page.getByLabel('Description', { exact: true }).fill('made by hand');
    await page.locator('summary', { hasText: 'Ports' }).click();
    const ports = page.getByRole('group', { name: 'Ports' });
    await ports.getByRole('button', { name: 'Add' }).click();
    await ports.getByLabel('Port (required)').fill('8080');
    await ports.getByLabel('Name (required)').fill('web');
    await ports.getByLabel('Needs the access token').check();
    await page.getByText('Network and security').click();
    await page.getByLabel('Internet access').uncheck();
    expect(await tab.accessibilityViolations()).toEqual([]);
    await button('Create').click();
    await page.getByRole('heading', { level: 1, name: 'by-form' }).waitFor();
    await showsStatus('running');
    const { sandboxes } = (await api().request<{ sandboxes: SandboxView[] }>('GET', '/v1/sandboxes')).body.data;
    expect(sandboxes).toEqual([
      expect.objectContaining({
        ...{ name: 'by-form', description: 'made by hand', cpu_count: 1, memory_mb: 256, storage_gb: 2, timeout: 900 },
        ...{ auto_pause: true, secure: true, allow_internet_access: false },
        ...{ metadata: { team: 'blue' }, env_vars: { GREETING: 'hello there' } },
        custom_ports: [expect.objectContaining({ port: 8080, name: 'web', is_protected: true })],
      }),
    ]);
  });

  test('shows a refusal at its field, keeps what stands in it, and creates when it is mended', async () => {
    const { page } = tab;
    await tab.open('sandboxes/new');
    const name = page.getByLabel('Name', { exact: true });
    await name.fill('turned\u202earound');
    await page.getByLabel('Timeout in seconds').fill('600');
    await button('Create').click();
    await page.getByRole('alert').getByText('invalid_name').waitFor();
    expect(await name.getAttribute('aria-invalid')).toBe('true');
    await name.fill('mended');
    await page.locator('summary', { hasText: 'Ports' }).click();
    const ports = page.getByRole('group', { name: 'Ports' });
    for (const index of [0, 1]) {
      await ports.getByRole('button', { name: 'Add' }).click();
      await ports.getByLabel('Port (required)').nth(index).fill('8080');
      await ports.getByLabel('Name (required)').nth(index).fill(`web${index}`);
    }
    await button('Create').click();
    await page.getByRole('alert').getByText('custom_ports').first().waitFor();
    expect(await ports.getByLabel('Port (required)').nth(1).inputValue()).toBe('8080');
    expect(await tab.accessibilityViolations()).toEqual([]);
    await ports.getByLabel('Port (required)').nth(1).fill('8081');
    await button('Create').click();
    await page.getByRole('heading', { level: 1, name: 'mended' }).waitFor();
    expect(new URL(page.url()).pathname).toMatch(/\/sandboxes\/sbx-/);
  });
});

describe('the page of a sandbox', () => {
  test('pauses, resumes, restarts, terminates and deletes it', async () => {
    const sandbox = await create({ name: 'lively' });
    await tab.open(`sandboxes/${sandbox.sandbox_id}`);
    await button('Pause').click();
    await showsStatus('paused');
    expect((await read(sandbox)).status).toBe('paused');
    expect(await button('Pause').count()).toBe(0);
    expect(await button('Move').count()).toBe(0);
    await button('Resume').click();
    await showsStatus('running');
    expect((await read(sandbox)).status).toBe('running');
    await button('Restart').click();
    expect(await tab.accessibilityViolations()).toEqual([]);
    await confirm('Restart lively');
    await notice('lively is restarted').waitFor();
    expect(await read(sandbox)).toMatchObject({ status: 'running', reason: 'restarted' });
    await button('Terminate').click();
    await confirm('Cancel');
    expect((await read(sandbox)).status).toBe('running');
    await button('Terminate').click();
    await confirm('Terminate lively');
    await showsStatus('terminated');
    expect((await read(sandbox)).status).toBe('terminated');
    for (const name of ['Pause', 'Resume', 'Restart', 'Terminate', 'Set timeout']) {
      expect([name, await button(name).count()]).toEqual([name, 0]);
    }
    await button('Delete').click();
    await confirm('Delete lively');
    await tab.page.getByRole('heading', { level: 1, name: 'Sandboxes' }).waitFor();
    await tab.page.getByText('You have no sandboxes yet.').waitFor();
    expect((await api().request('GET', `/v1/sandboxes/${sandbox.sandbox_id}`)).status).toBe(404);
  });

  test('sets and extends its timeout, and shows at the field why a timeout is refused', async () => {
    const sandbox = await create({ timeout: 600 });
    await tab.open(`sandboxes/${sandbox.sandbox_id}`);
    await button('Extend by 15 min').click();
    await notice(/^It lasts until/).waitFor();
    expect((await read(sandbox)).timeout).toBe(1500);
    await button('Set timeout').click();
    const dialog = tab.page.getByRole('dialog', { name: 'Set timeout' });
    await dialog.getByLabel('Timeout in seconds').fill('99999999');
    expect(await tab.accessibilityViolations()).toEqual([]);
    await dialog.getByRole('button', { name: 'Set', exact: true }).click();
    await dialog.getByRole('alert').waitFor();
    expect(await dialog.getByLabel('Timeout in seconds').getAttribute('aria-invalid')).toBe('true');
    await dialog.getByLabel('Timeout in seconds').fill('7200');
    await dialog.getByRole('button', { name: 'Set', exact: true }).click();
    await dialog.waitFor({ state: 'hidden' });
    await section('Lifetime').getByText('2 h from when it runs').waitFor();
    expect((await read(sandbox)).timeout).toBe(7200);
  });

  test('moves it to another project', async () => {
    const made = await api().request<{ project_id: string }>('POST', '/v1/projects', { name: 'Second' });
    const sandbox = await create({ name: 'mover' });
    await tab.open(`sandboxes/${sandbox.sandbox_id}`);
    await button('Move').click();
    const dialog = tab.page.getByRole('dialog', { name: 'Move mover to another project' });
    await dialog.getByLabel('Project').selectOption({ label: 'Second' });
    expect(await tab.accessibilityViolations()).toEqual([]);
    await dialog.getByRole('button', { name: 'Move', exact: true }).click();
    await section('Sandbox').getByRole('link', { name: 'Second' }).waitFor();
    expect((await read(sandbox)).project_id).toBe(made.body.data.project_id);
    await api().deleteSandbox(sandbox.sandbox_id);
    await api().request('DELETE', `/v1/projects/${made.body.data.project_id}`);
  });

  test('adds and removes ports, whose links reach their servers', async () => {
    const sandbox = await create({ custom_ports: [{ port: 8080, name: 'web' }] });
    const agent = platform.agent(sandbox);
    const serve = (port: number) =>
      `python3 -m http.server ${port} -d /etc >/dev/null 2>&1 & until (: </dev/tcp/127.0.0.1/${port}) 2>/dev/null; do :; done`;
    for (const port of [8080, 9000]) await agent.run('bash', ['-c', serve(port)]);
    agent.close();
    await tab.open(`sandboxes/${sandbox.sandbox_id}/ports`);
    await button('Add a port').click();
    const dialog = tab.page.getByRole('dialog', { name: 'Add a port' });
    await dialog.getByLabel('Port (required)').fill('8080');
    await dialog.getByLabel('Name (required)').fill('admin');
    await dialog.getByRole('button', { name: 'Add', exact: true }).click();
    await dialog.getByRole('alert').waitFor();
    await dialog.getByLabel('Port (required)').fill('9000');
    await dialog.getByLabel('Needs the access token').check();
    expect(await tab.accessibilityViolations()).toEqual([]);
    await dialog.getByRole('button', { name: 'Add', exact: true }).click();
    await notice('Port 9000 can be reached').waitFor();
    const row = (port: number) => tab.page.getByRole('row', { name: new RegExp(`^${port} TCP`) });

    const isServed = async (open: () => Promise<void>) => {
      const [opened] = await Promise.all([tab.context.waitForEvent('page'), open()]);
      await opened.getByText('Directory listing').first().waitFor();
      await opened.close();
    };
    await isServed(() =>
      row(8080)
        .getByRole('link', { name: /^http / })
        .click(),
    );
    await row(9000)
      .getByRole('button', { name: /^Make a link/ })
      .click();
    await row(9000).getByRole('button', { name: 'Show' }).click();
    const link = (await row(9000).locator('.copyable code').textContent())!;
    await isServed(async () => {
      const opened = await tab.context.newPage();
      await opened.goto(link);
    });
    await row(9000).getByRole('button', { name: 'Remove' }).click();
    await confirm('Remove port 9000');
    await row(9000).waitFor({ state: 'detached' });
    const ports = (await read(sandbox)).custom_ports as { port: number }[];
    expect(ports.map(({ port }) => port)).toEqual([8080]);
  });

  test('hides the values of its environment until somebody asks for one', async () => {
    const sandbox = await create({ env_vars: { API_SECRET: 'very-secret', OTHER: 'other-value' } });
    await tab.open(`sandboxes/${sandbox.sandbox_id}/environment`);
    const variables = section('Environment variables');
    await variables.getByText('API_SECRET').waitFor();
    expect(await tab.page.content()).not.toMatch(/very-secret|other-value/);
    await variables.getByRole('button', { name: 'Show', exact: true }).first().click();
    await variables.getByText('very-secret').waitFor();
    expect(await variables.textContent()).not.toContain('other-value');
    await variables.getByRole('button', { name: 'Show all values' }).click();
    await variables.getByText('other-value').waitFor();
    await variables.getByRole('button', { name: 'Hide all values' }).click();
    await variables.getByText('other-value').waitFor({ state: 'detached' });
    expect(await variables.textContent()).not.toContain('very-secret');
    expect(await tab.accessibilityViolations()).toEqual([]);
  });

  test('shows what it uses, and its life with reasons and durations', async () => {
    const sandbox = await create();
    await api().request('POST', `/v1/sandboxes/${sandbox.sandbox_id}/pause`);
    await api().request('POST', `/v1/sandboxes/${sandbox.sandbox_id}/resume`);
    await tab.open(`sandboxes/${sandbox.sandbox_id}/timeline`);
    const entries = section('Timeline').getByRole('listitem');
    await entries.getByText('Runs again').waitFor();
    const names = await entries.locator('strong').allTextContents();
    expect(names).toEqual(['Runs again', 'Paused', 'Runs for the first time', 'Admitted']);
    expect(await tab.accessibilityViolations()).toEqual([]);
    await part('Metrics').click();
    for (const name of ['CPU', 'Memory', 'Disk']) {
      await section(name)
        .getByRole('img', { name: new RegExp(`${name}: \\d`) })
        .locator('svg')
        .waitFor({ timeout: 60_000 });
    }
    expect(await tab.accessibilityViolations()).toEqual([]);
  });

  test('opens its terminal and its files signed in, and without the token in their addresses', async () => {
    const sandbox = await create();
    await tab.open(`sandboxes/${sandbox.sandbox_id}/browser`);
    const open = async (name: RegExp) => {
      const [opened] = await Promise.all([
        tab.context.waitForEvent('page'),
        tab.page.getByRole('link', { name }).click(),
      ]);
      await opened.waitForURL((url) => url.hash === '');
      expect(opened.url()).not.toContain(sandbox.envd_access_token);
      return opened;
    };
    const terminal = await open(/^Open the terminal/);
    await terminal.locator('.xterm').waitFor();
    await terminal.locator('.xterm').click();
    await terminal.keyboard.type('touch /root/from-terminal\n');
    const agent = platform.agent(sandbox);
    await until(async () => (await agent.run('test', ['-e', '/root/from-terminal'])).exitCode === 0);
    agent.close();
    const files = await open(/^Open the files/);
    await files.getByText('from-terminal').or(files.getByText('root')).first().waitFor();
    expect(await tab.accessibilityViolations()).toEqual([]);
  });

  test('makes a template of its disk, and a sandbox whose command fails shows why', async () => {
    const sandbox = await create({ name: 'source' });
    const name = `t-${randomBytes(4).toString('hex')}`;
    await tab.open(`sandboxes/${sandbox.sandbox_id}/template`);
    await tab.page.getByLabel('Name (required)').fill(name);
    await tab.page.getByText('What its sandboxes get').click();
    await tab.page.getByLabel('Command', { exact: true }).fill("printf '%s' '<img src=x onerror=alert(1)>'; exit 7");
    expect(await tab.accessibilityViolations()).toEqual([]);
    await button('Make the template').click();
    await tab.page.getByRole('heading', { level: 1, name }).waitFor();
    await tab.page.getByRole('heading', { level: 1 }).getByText('available').waitFor({ timeout: 90_000 });
    type Templates = { templates: { template_id: string; name: string; status: string; custom_command: string }[] };
    const { templates } = (await api().request<Templates>('GET', '/v1/templates')).body.data;
    const template = templates.find((each) => each.name === name)!;
    expect(template).toMatchObject({ status: 'available', custom_command: expect.stringContaining('exit 7') });

    await tab.open(`sandboxes/new?template=${template.template_id}`);
    await button('Create').click();
    await showsStatus('failed');
    await tab.page.getByRole('link', { name: 'More about the failure' }).click();
    await section('Failure').getByText('Exit code').waitFor();
    expect(await section('Failure').textContent()).toMatch(/Exit code7.*<img src=x onerror=alert\(1\)>/);
    expect(await harmOn(tab)).toEqual([]);
    expect(await tab.accessibilityViolations()).toEqual([]);
    await removeSandboxes(root);
    await api().request('DELETE', `/v1/templates/${template.template_id}`);
  });

  test.each([false, true])('at 390 px shows hostile texts as texts in each part, dark: %s', async (dark) => {
    const sandbox = await create({
      name: `<img src=x>${'W'.repeat(13)}`,
      description: hostileText,
      env_vars: { MARKED: hostileText.replaceAll('\u0000', '') },
      metadata: { marked: `<img src=x onerror=alert(1)>${'W'.repeat(100)}` },
      custom_ports: [
        { port: 8080, name: 'W'.repeat(15) },
        { port: 9000, name: 'admin', is_protected: true },
      ],
    });
    const narrow = await browser.tabOf(root, { width: 390, height: 844, dark });
    const parts = ['', 'timeline', 'metrics', 'exec', 'browser', 'ports', 'environment', 'template'];
    for (const path of ['sandboxes', ...parts.map((each) => `sandboxes/${sandbox.sandbox_id}/${each}`)]) {
      await narrow.open(path);
      const show = narrow.page.getByRole('button', { name: /^Show( all values)?$/ });
      if ((await show.count()) > 0) await show.first().click();
      expect([path, await harmOn(narrow)]).toEqual([path, []]);
      expect([path, await clippedTexts(narrow)]).toEqual([path, []]);
      expect([path, await narrow.accessibilityViolations()]).toEqual([path, []]);
    }
    expect(narrow.complaints).toEqual([]);
    await narrow.close();
  });
});

/** Texts that reach over the edge of their card. */
const clippedTexts = ({ page }: ConsoleTab) =>
  page.evaluate<string[]>(`[...document.querySelectorAll('main .section, main td, main .page-header')]
    .filter((each) => each.scrollWidth > each.clientWidth + 1)
    .map((each) => each.className + ' ' + each.innerText.slice(0, 80))`);

describe('a command', () => {
  let sandbox: SandboxView;
  beforeEach(async () => {
    sandbox = await create({ memory_mb: 256 });
  });
  const run = async (command: string) => {
    await tab.page.getByLabel('Command (required)').fill(command);
    await tab.page.getByLabel('Command (required)').press('Control+Enter');
  };
  const output = () => tab.page.getByRole('log', { name: 'Output' });
  const inSandbox = async (...words: string[]) => {
    const agent = platform.agent(sandbox);
    await agent.run(words[0]!, words.slice(1));
    agent.close();
  };

  test('shows its output while it runs, stderr apart, and its exit code', async () => {
    await tab.open(`sandboxes/${sandbox.sandbox_id}/exec`);
    await run('echo one; echo two >&2; until [ -e /tmp/go ]; do sleep 0.1; done; echo three; exit 3');
    await output().getByText('one').waitFor();
    await output().getByText('two').waitFor();
    expect(await tab.page.getByLabel('Command (required)').isDisabled()).toBe(true);
    expect(await output().textContent()).not.toContain('three');
    expect(await tab.accessibilityViolations()).toEqual([]);
    await inSandbox('touch', '/tmp/go');
    await section('Output').getByText('Exit code 3').waitFor();
    const choice = tab.page.getByLabel('Which output');
    await choice.selectOption('Only stderr');
    expect(await output().textContent()).toBe('two\n');
    await choice.selectOption('Only stdout');
    expect(await output().textContent()).toBe('one\nthree\n');
  });

  test('gets its folder, its variables and its input', async () => {
    await tab.open(`sandboxes/${sandbox.sandbox_id}/exec`);
    await tab.page.getByText('Folder, environment and input').click();
    await tab.page.getByLabel('Folder', { exact: true }).fill('/etc');
    await tab.page.getByLabel('Standard input').fill('typed');
    const variables = tab.page.getByRole('group', { name: 'Environment variables' });
    await variables.getByRole('button', { name: 'Add' }).click();
    await variables.getByLabel(/name 1$/).fill('WHO');
    await variables.getByLabel(/value 1$/).fill('me');
    await run('echo "$PWD $WHO $(cat)"');
    await section('Output').getByText('Exit code 0').waitFor();
    expect(await output().textContent()).toBe('/etc me typed\n');
  });

  test('is still there after a reload and in another part of the page, until somebody cancels it', async () => {
    await tab.open(`sandboxes/${sandbox.sandbox_id}/exec`);
    await run('echo started; sleep 1000');
    await output().getByText('started').waitFor();
    await part('Timeline').click();
    await section('Timeline').waitFor();
    await part('Run a command').click();
    await output().getByText('started').waitFor();
    await tab.page.reload();
    await output().getByText('started').waitFor();
    await section('Output').getByText('sleep 1000').waitFor();
    await button('Cancel the running command').click();
    await section('Output').getByText('It was cancelled.').waitFor();
    const active = await api().request('GET', `/v1/sandboxes/${sandbox.sandbox_id}/exec/active`);
    expect(active.body).toMatchObject({ active: false });
    expect(await tab.page.getByLabel('Command (required)').isDisabled()).toBe(false);
  });

  test('of another user keeps the sandbox busy until it is cancelled, and its output is not shown', async () => {
    const user = await newUser(platform, root);
    const ofUser = await create({ memory_mb: 256 }, user);
    await tab.open(`sandboxes/${ofUser.sandbox_id}/exec`);
    expect(await button(/^Cancel/).count()).toBe(0);
    const body = { command: 'echo theirs; sleep 1000' };
    const started = await api(user).request('POST', `/v1/sandboxes/${ofUser.sandbox_id}/exec`, body);
    expect(started.status).toBe(201);
    await run('echo mine');
    await tab.page.getByRole('alert').getByText('exec_in_progress', { exact: true }).waitFor();
    expect(await output().count()).toBe(0);
    await button('Cancel the other command').click();
    await notice('The command has ended').waitFor();
    await run('echo mine');
    await section('Output').getByText('Exit code 0').waitFor();
    expect(await output().textContent()).toBe('mine\n');
  });

  test('with hostile output changes nothing but its box', async () => {
    await tab.page.setViewportSize({ width: 390, height: 844 });
    await tab.open(`sandboxes/${sandbox.sandbox_id}/exec`);
    const title = await tab.page.title();
    await run(
      `printf '<img src=x onerror=alert(1)>\\033[31mred\\033[0m\\033]0;title\\007\\342\\200\\256turned\\rnext\\377'; head -c 3000 /dev/zero | tr '\\0' W`,
    );
    await section('Output').getByText('Exit code 0').waitFor();
    const text = (await output().textContent())!;
    expect(text).toContain('<img src=x onerror=alert(1)>red⟨001B⟩]0;title⟨0007⟩⟨202E⟩turned\nnext\ufffdWWW');
    expect(await tab.page.title()).toBe(title);
    expect(await harmOn(tab)).toEqual([]);
  });

  test('that writes without end keeps the page usable and its text bounded', async () => {
    await tab.open(`sandboxes/${sandbox.sandbox_id}/exec`);
    await run('yes');
    await section('Output')
      .getByText(/^Not all output is shown/)
      .waitFor();
    await button('Cancel the running command').click();
    await section('Output').getByText('It was cancelled.').waitFor();
    const text = (await output().textContent())!;
    expect(text).toMatch(/^(y\n?|\n)(y\n)+y?$/);
    expect(text.split('\n').length).toBeLessThanOrEqual(10_001);
  });
});

test('a user does not see the sandboxes of others, and a root user does', async () => {
  const [user, other] = [await newUser(platform, root), await newUser(platform, root)];
  const ofUser = await create({ name: 'of-user' }, user);
  await create({ name: 'of-other' }, other);
  const stranger = await browser.tabOf(user);
  await stranger.open('sandboxes');
  await stranger.page.getByRole('link', { name: 'of-user' }).waitFor();
  expect(await stranger.page.getByRole('link', { name: 'of-other' }).count()).toBe(0);
  expect(await stranger.page.getByRole('columnheader', { name: 'Owner' }).count()).toBe(0);
  const ofRoot = await create({ name: 'of-root' });
  await stranger.open(`sandboxes/${ofRoot.sandbox_id}`);
  await stranger.page.getByRole('alert').getByText('not_found', { exact: true }).waitFor();
  expect(await stranger.page.getByRole('button', { name: 'Delete' }).count()).toBe(0);
  expect(stranger.complaints).toEqual([]);
  await stranger.close();
  await tab.open('sandboxes');
  await lists('of-root', 'of-other', 'of-user');
  await tab.page.getByRole('link', { name: 'of-user' }).click();
  await showsStatus('running');
  await button('Pause').click();
  await showsStatus('paused');
  expect((await read(ofUser)).status).toBe('paused');
});
