import fs from 'node:fs';
import { jest } from '@jest/globals';
import { ConsoleBrowser, type ConsoleTab } from '../support/console-browser.ts';
import { newRoot, newUser, type Person } from '../support/console-people.ts';
import { cards, TestProcessor } from '../support/payment-processor.ts';
import { RunningPlatform } from '../support/running-platform.ts';
import { until } from '../support/until.ts';
import { harmOn, hostileText } from './hostile-texts.ts';

/** Usage and billing. */
jest.setTimeout(120_000);

let platform: RunningPlatform;
let browser: ConsoleBrowser;
let tab: ConsoleTab;

afterEach(async () => {
  const { complaints } = tab;
  await tab.close();
  expect(complaints).toEqual([]);
});

const button = (name: string | RegExp) => tab.page.getByRole('button', { name, exact: true });
const dialog = (name: string | RegExp) => tab.page.getByRole('dialog', { name });
const get = async <Data>({ apiKey }: Person, address: string) =>
  (await platform.client(apiKey).request<Data>('GET', address)).body.data;
const planOf = async (person: Person) =>
  (await get<{ subscription: { plan: { plan_name: string } } }>(person, '/v1/user-management/account/subscription'))
    .subscription.plan.plan_name;

describe('on a platform without a payment processor', () => {
  let root: Person;

  beforeAll(async () => {
    platform = await RunningPlatform.shared();
    root = await newRoot(platform);
    browser = await ConsoleBrowser.open(platform.env.PLATFORM_URL);
    const client = platform.client(root.apiKey);
    const project = await client.request<{ project_id: string }>('POST', '/v1/projects', { name: '=1+2,"quoted"' });
    expect(project.status).toBe(201);
    const { project_id } = project.body.data;
    const { sandbox_id } = await client.createSandbox({ timeout: 120, project_id, metadata: { team: hostileText } });
    await client.untilStatus(sandbox_id, 'running');
    await client.deleteSandbox(sandbox_id);
    await until(async () => (await get<{ events: unknown[] }>(root, '/v1/usage/events')).events.length > 0);
  }, 240_000);
  beforeEach(async () => {
    tab = await browser.tabOf(root);
  });
  afterAll(async () => {
    await browser?.close();
    await platform?.leave();
  });

  test('the report shows the usage by project, and its file has the same rows without a formula', async () => {
    await tab.open('usage');
    await tab.page.getByRole('combobox', { name: 'By' }).selectOption('project_id');
    await tab.page.getByRole('cell', { name: '=1+2,"quoted"' }).waitFor();
    const [download] = await Promise.all([tab.page.waitForEvent('download'), button('Download as CSV').click()]);
    expect(download.suggestedFilename()).toMatch(/^usage-by-project_id-\d{4}-\d\d-\d\d-\d{4}-\d\d-\d\d\.csv$/);
    const lines = fs.readFileSync(await download.path(), 'utf8').split('\r\n');
    expect(lines[0]).toMatch(/^\ufeffproject_id,project_name,total_cost,.*,currency$/);
    expect(lines[1]).toMatch(/^prj-[a-z0-9]+,"'=1\+2,""quoted""",[\d.e-]+,/);
    expect(lines.slice(2)).toEqual(['']);
    expect(await tab.accessibilityViolations()).toEqual([]);
  });

  test('the report by day has a chart, and shows another one when it is chosen', async () => {
    await tab.open('usage?span=7d');
    await tab.page.getByRole('img', { name: /^Cost by day/ }).waitFor();
    await tab.page.getByRole('combobox', { name: 'Chart' }).selectOption('cpu');
    await tab.page.getByRole('img', { name: /^CPU hours by day/ }).waitFor();
    expect(await tab.accessibilityViolations()).toEqual([]);
    const [download] = await Promise.all([tab.page.waitForEvent('download'), button('Download as CSV').click()]);
    expect(fs.readFileSync(await download.path(), 'utf8')).toMatch(/^\ufeffday,total_cost,/);
  });

  test('hostile values of metadata and the other parts of usage run nothing, in a narrow window', async () => {
    await tab.page.setViewportSize({ width: 390, height: 844 });
    for (const address of [
      ...['usage?by=metadata&key=team', 'usage?by=user_id', 'usage?part=sessions', 'usage?part=events'],
      ...['usage?part=storage', 'usage?from=2026-02-31', 'usage?span=nonsense'],
    ]) {
      await tab.open(address);
      expect([address, await harmOn(tab)]).toEqual([address, []]);
    }
    await tab.open('usage?part=sessions');
    expect(await tab.page.locator('tbody').getByRole('row').count()).toBe(1);
  });

  test.each(['overview', 'history', 'invoices', 'plan', 'cards', 'payments', 'balance', 'budget'])(
    'the part %s of billing says what there is without one',
    async (part) => {
      await tab.open(`billing?part=${part}`);
      await tab.page.getByText('This platform has no payment processor').first().waitFor();
      expect(await tab.page.locator('main').getByRole('alert').count()).toBe(0);
      expect(await button('Add a card').count()).toBe(0);
      expect(await tab.accessibilityViolations()).toEqual([]);
      await tab.page.setViewportSize({ width: 390, height: 844 });
      // Charts follow the width of the window.
      await until(async () => (await harmOn(tab)).length === 0);
    },
  );

  test('a plan is chosen after a question with its cost, and applies at once', async () => {
    await tab.open('billing?part=plan');
    const row = tab.page.getByRole('row', { name: /^Hobby/ });
    await row.getByRole('button', { name: 'Choose' }).click();
    const question = tab.page.getByRole('dialog');
    expect(await tab.accessibilityViolations()).toEqual([]);
    await question.getByRole('button', { name: 'Cancel' }).click();
    expect(await planOf(root)).toBe('enterprise');
    await row.getByRole('button', { name: 'Choose' }).click();
    await question.getByRole('button', { name: /^Choose / }).click();
    await until(async () => (await planOf(root)) === 'hobby');
    await tab.page.getByRole('row', { name: /^Hobby · your plan/ }).waitFor();
  });

  test('a budget is set, changed and deleted', async () => {
    const budget = () => get<Record<string, unknown> | null>(root, '/v1/budgets');
    await tab.open('billing?part=budget');
    await button('Set a budget').click();
    const form = dialog('Set a budget');
    expect(await tab.accessibilityViolations()).toEqual([]);
    await form.getByLabel('Amount of a period').fill('20');
    await form.getByLabel('Limit type').selectOption('hard');
    await form.getByLabel('Further mail addresses').fill('finance@example.com');
    await form.getByRole('button', { name: 'Set the budget' }).click();
    await form.waitFor({ state: 'detached' });
    expect(await budget()).toMatchObject({
      ...{ budget_amount: 20, limit_type: 'hard', notification_emails: ['finance@example.com'], is_active: true },
    });
    await tab.page.getByText(/Used in this period: .* of .*20/).waitFor();
    await button('Change').click();
    const change = dialog('Change the budget');
    expect(await tab.accessibilityViolations()).toEqual([]);
    await change.getByLabel('Amount of a period').fill('30');
    await change.getByLabel('Limit type').selectOption('soft');
    await change.getByLabel('The budget is switched on').uncheck();
    await change.getByRole('button', { name: 'Save' }).click();
    await tab.page.getByText('The budget is switched off').waitFor();
    expect(await budget()).toMatchObject({ budget_amount: 30, limit_type: 'soft', is_active: false });
    await button('Delete').click();
    await tab.page
      .getByRole('dialog')
      .getByRole('button', { name: /^Delete the budget of/ })
      .click();
    await button('Set a budget').waitFor();
    expect(await budget()).toBeNull();
  });

  test('a user without rights sees the plan and their own usage, and none of the money', async () => {
    const own = await browser.tabOf(await newUser(platform, root));
    await own.open('billing?part=invoices');
    expect(await own.page.getByRole('navigation', { name: 'Parts of billing' }).count()).toBe(0);
    expect(await own.page.getByRole('button', { name: 'Choose' }).count()).toBe(0);
    expect(await own.page.getByRole('table', { name: 'Plans with their prices and limits' }).count()).toBe(1);
    await own.open('usage');
    await own.page.getByText('Nothing was used in this time.').waitFor();
    await own.page.getByRole('combobox', { name: 'By' }).waitFor();
    expect(await own.page.getByRole('combobox', { name: 'By' }).locator('option').allTextContents()).toEqual([
      'Day',
      'Project',
      'Metadata',
    ]);
    await own.close();
  });
});

describe('on a platform with a payment processor', () => {
  let processor: TestProcessor;
  let admin: Person;
  let root: Person;

  beforeAll(async () => {
    processor = await TestProcessor.start();
    platform = await RunningPlatform.onSharedServers({
      ...processor.env,
      PLATFORM_STRIPE_SCRIPT_URL: processor.scriptUrl,
    });
    await platform.start();
    [admin, root] = [await newRoot(platform, '--admin'), await newRoot(platform, '--plan', 'hobby')];
    browser = await ConsoleBrowser.open(platform.env.PLATFORM_URL);
  }, 240_000);
  beforeEach(async () => {
    tab = await browser.tabOf(root);
  });
  afterAll(async () => {
    await browser?.close();
    await platform?.stop();
    await processor?.stop();
    await platform?.hostRemains();
    platform?.removeData();
  }, 120_000);

  test('a plan with a price is refused without a card, and nothing changes', async () => {
    await tab.open('billing?part=plan');
    await tab.page.getByRole('row', { name: /^Pro/ }).getByRole('button', { name: 'Choose' }).click();
    const question = tab.page.getByRole('dialog');
    await question.getByText('add a card first').waitFor();
    await question.getByRole('button', { name: /^Choose / }).click();
    await question.getByRole('alert').getByText('payment_required').waitFor();
    expect(await planOf(root)).toBe('hobby');
  });

  async function addCard(number: string): Promise<void> {
    await tab.open('billing?part=cards');
    await button('Add a card').click();
    const link = dialog('Add a card').getByRole('link', { name: 'Open the page for the card' });
    await link.waitFor();
    expect(await tab.accessibilityViolations()).toEqual([]);
    const [own] = await Promise.all([tab.context.waitForEvent('page'), link.click()]);
    const fields = { number, exp_month: '12', exp_year: '40', cvc: '123', postal_code: '10115' };
    for (const [name, value] of Object.entries(fields)) {
      await own.locator(`#card input[placeholder=${name}]`).fill(value);
    }
    await own.getByRole('button', { name: 'Add the card' }).click();
    await own.getByText('The card is added').waitFor();
    await own.close();
    await dialog('Add a card').waitFor({ state: 'detached' });
  }

  test('a card is added on its page, which the console sees, and another one becomes the default', async () => {
    await addCard(cards.good);
    await tab.page.getByRole('cell', { name: 'visa ending in 4242 · default' }).waitFor();
    await addCard(cards.otherGood);
    const other = tab.page.getByRole('row', { name: /4444/ });
    await other.getByRole('button', { name: 'Make default' }).click();
    await tab.page
      .getByRole('dialog')
      .getByRole('button', { name: /^Make default / })
      .click();
    await tab.page.getByRole('cell', { name: /4444 · default/ }).waitFor();
    const list = async () =>
      (await get<{ payment_methods: { last4: string; is_default: boolean }[] }>(root, '/v1/payment/methods'))
        .payment_methods;
    expect((await list()).filter(({ is_default }) => is_default)).toMatchObject([{ last4: '4444' }]);
    await other.getByRole('button', { name: 'Delete' }).click();
    await tab.page
      .getByRole('dialog')
      .getByRole('button', { name: /^Delete / })
      .click();
    await other.waitFor({ state: 'detached' });
    expect(await list()).toMatchObject([{ last4: '4242', is_default: true }]);
  });

  test('a plan is paid with the card, and an operator refunds a part of the charge', async () => {
    await tab.open('billing?part=plan');
    await tab.page.getByRole('row', { name: /^Pro/ }).getByRole('button', { name: 'Choose' }).click();
    const question = tab.page.getByRole('dialog');
    await question.getByText(/is charged to your visa ending in 4242/).waitFor();
    await question.getByRole('button', { name: /^Choose / }).click();
    await tab.page.getByRole('row', { name: /^Pro · your plan/ }).waitFor({ timeout: 60_000 });
    expect(await planOf(root)).toBe('pro');
    await tab.open('billing?part=invoices');
    await tab.page.getByRole('link', { name: /^inv-/ }).click();
    await tab.page.getByRole('heading', { level: 1, name: /^Invoice inv-/ }).waitFor();
    expect(await tab.accessibilityViolations()).toEqual([]);
    const [receipt] = await Promise.all([
      tab.page.waitForEvent('download'),
      tab.page.getByRole('link', { name: 'Receipt as PDF' }).click(),
    ]);
    expect(fs.readFileSync(await receipt.path(), 'latin1').slice(0, 5)).toBe('%PDF-');
    expect(await tab.page.getByRole('button', { name: 'Refund' }).count()).toBe(0);

    const operator = await browser.tabOf(admin);
    await operator.open(`billing?part=payments&account_id=${root.accountId}`);
    await operator.page.getByRole('button', { name: 'Refund' }).click();
    const form = operator.page.getByRole('dialog');
    expect(await operator.accessibilityViolations()).toEqual([]);
    await form.getByLabel(/^Amount/).fill('1');
    await form.getByLabel('Description').fill(hostileText);
    await form.getByRole('button', { name: /^Refund / }).click();
    await form.waitFor({ state: 'detached' });
    const { payment_intents: charges } = await get<{ payment_intents: { amount_refunded: number }[] }>(
      root,
      '/v1/payment/intents',
    );
    expect(charges).toMatchObject([{ amount_refunded: 1 }]);
    expect(operator.complaints).toEqual([]);
    await operator.close();
  });

  test('a cheaper plan is planned for the next period, and can be taken back', async () => {
    await tab.open('billing?part=plan');
    await tab.page
      .getByRole('row', { name: /^Hobby/ })
      .getByRole('button', { name: 'Choose' })
      .click();
    await tab.page
      .getByRole('dialog')
      .getByRole('button', { name: /^Choose / })
      .click();
    await tab.page.getByText('The plan changes to').waitFor();
    expect(await planOf(root)).toBe('pro');
    await tab.page.getByRole('row', { name: /^Pro/ }).getByRole('button', { name: 'Keep' }).click();
    await tab.page
      .getByRole('dialog')
      .getByRole('button', { name: /^Keep / })
      .click();
    await tab.page.getByText('The plan changes to').waitFor({ state: 'detached' });
    const { subscription } = await get<{ subscription: { planned_plan_name: string | null } }>(
      root,
      '/v1/user-management/account/subscription',
    );
    expect(subscription.planned_plan_name).toBeNull();
  });

  test.each(['overview', 'history', 'invoices', 'plan', 'cards', 'payments', 'balance', 'budget'])(
    'the part %s of billing fits into a narrow dark window',
    async (part) => {
      const narrow = await browser.tabOf(root, { width: 390, height: 844, dark: true });
      await narrow.open(`billing?part=${part}`);
      expect(await narrow.page.locator('main').getByRole('alert').count()).toBe(0);
      expect(await harmOn(narrow)).toEqual([]);
      expect(await narrow.accessibilityViolations()).toEqual([]);
      expect(narrow.complaints).toEqual([]);
      await narrow.close();
    },
  );
});
