import { jest } from '@jest/globals';
import { ConsoleBrowser, type ConsoleTab } from '../support/console-browser.ts';
import { newRoot, newUser, type Person } from '../support/console-people.ts';
import { RunningPlatform } from '../support/running-platform.ts';

/** Every page, as each kind of person sees it. */
jest.setTimeout(120_000);

let platform: RunningPlatform;
let browser: ConsoleBrowser;
const people = {} as Record<'admin' | 'root' | 'user', Person>;

beforeAll(async () => {
  platform = await RunningPlatform.shared();
  [people.admin, people.root] = await Promise.all([newRoot(platform, '--admin'), newRoot(platform)]);
  people.user = await newUser(platform, people.root);
  browser = await ConsoleBrowser.open(platform.env.PLATFORM_URL);
}, 180_000);

afterAll(async () => {
  await browser?.close();
  await platform?.leave();
});

const ofEverybody = [
  ...['./', 'sandboxes', 'sandboxes/new', 'templates', 'templates/new', 'templates/imports', 'projects', 'keys'],
  ...['webhooks', 'usage', 'quotas', 'billing', 'notifications', 'profile'],
];
const ofRoots = ['users', 'audit'];
const ofAdmins = ['admin/accounts', 'admin/hosts', 'admin/workers', 'admin/dead-letters', 'admin/comparison'];

describe.each(['admin', 'root', 'user'] as const)('for a person who is %s,', (kind) => {
  let tab: ConsoleTab;
  beforeAll(async () => {
    tab = await browser.tabOf(people[kind]);
  }, 60_000);
  afterAll(() => tab?.close());

  const own = [...ofEverybody, ...(kind === 'user' ? [] : ofRoots), ...(kind === 'admin' ? ofAdmins : [])];
  const others = [...ofRoots, ...ofAdmins].filter((path) => !own.includes(path));

  test.each(own)('%s opens without a complaint, and everybody can use it', async (path) => {
    await tab.open(path);
    expect(await tab.page.getByRole('heading', { level: 1 }).count()).toBe(1);
    expect(await tab.page.getByRole('alert').allTextContents()).toEqual([]);
    expect(await tab.accessibilityViolations()).toEqual([]);
    expect(tab.complaints.splice(0)).toEqual([]);
  });

  test('the navigation shows the pages of this person alone', async () => {
    const links = tab.page.getByRole('navigation', { name: 'Pages' }).getByRole('link');
    const shown = await links.evaluateAll((all) => all.map((each) => each.getAttribute('href')!));
    for (const path of others) expect(shown).not.toContain(`/console/${path}`);
    for (const path of [...ofRoots, ...ofAdmins].filter((each) => own.includes(each))) {
      expect(shown).toContain(`/console/${path}`);
    }
  });

  if (others.length > 0) {
    test.each(others)('%s shows nothing but that it is for others', async (path) => {
      await tab.open(path);
      expect(await tab.page.getByRole('table').count()).toBe(0);
      expect(await tab.page.locator('main').textContent()).toMatch(/admin_required|root_required|only for|Only/);
    });
  }
});

test.each([
  [390, false],
  [390, true],
  [1280, true],
  [1920, false],
  [2560, false],
])('at %i px, dark: %s, no page is wider than the window', async (width, dark) => {
  const tab = await browser.tabOf(people.admin, { width, height: 844, dark });
  for (const path of [...ofEverybody, ...ofRoots, ...ofAdmins]) {
    await tab.open(path);
    const overflow = await tab.page.evaluate<number>(
      'document.documentElement.scrollWidth - document.documentElement.clientWidth',
    );
    expect([path, overflow]).toEqual([path, 0]);
    expect([path, await tab.accessibilityViolations()]).toEqual([path, []]);
  }
  await tab.close();
});
