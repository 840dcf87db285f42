import axe from 'axe-core';
import { type Browser, type BrowserContext, type Cookie, chromium, type Page } from 'playwright-core';
import type { Person } from './console-people.ts';

/** Debian's Chromium, which tests use as a person does: by labels, buttons and links. */
export class ConsoleBrowser {
  readonly #browser: Browser;
  readonly #origin: string;
  /** The cookies of people, by their e-mails. */
  readonly #sessions = new Map<string, Cookie[]>();

  private constructor(browser: Browser, origin: string) {
    this.#browser = browser;
    this.#origin = origin;
  }

  /** @param origin the address of the API */
  static async open(origin: string): Promise<ConsoleBrowser> {
    const browser = await chromium.launch({
      executablePath: '/usr/bin/chromium',
      args: ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage'],
    });
    return new ConsoleBrowser(browser, origin);
  }

  async close(): Promise<void> {
    await this.#browser.close();
  }

  /** A tab with cookies of its own. */
  async newTab(options: { width?: number; height?: number; dark?: boolean } = {}): Promise<ConsoleTab> {
    const context = await this.#browser.newContext({
      baseURL: `${this.#origin}/console/`,
      viewport: { width: options.width ?? 1280, height: options.height ?? 900 },
      colorScheme: options.dark ? 'dark' : 'light',
      locale: 'en-GB',
      timezoneId: 'Europe/Berlin',
      permissions: ['clipboard-read', 'clipboard-write'],
    });
    return new ConsoleTab(context, await context.newPage());
  }

  /**
   * A tab of a person who is signed in. It goes on with their session if there is one, because an address may sign in
   * only so often a minute.
   */
  async tabOf(person: Person, options: { width?: number; height?: number; dark?: boolean } = {}): Promise<ConsoleTab> {
    const tab = await this.newTab(options);
    await tab.context.addCookies(this.#sessions.get(person.email) ?? []);
    await tab.page.goto('./');
    const form = tab.page.getByLabel('E-mail');
    await form.or(tab.page.locator('.frame')).first().waitFor();
    if (await form.isVisible()) {
      await tab.signIn(person);
      this.#sessions.set(person.email, await tab.context.cookies());
    }
    return tab;
  }
}

export class ConsoleTab {
  readonly context: BrowserContext;
  readonly page: Page;
  /** Exceptions of scripts, and violations of the page's policy. Every test expects none. */
  readonly complaints: string[] = [];

  constructor(context: BrowserContext, page: Page) {
    this.context = context;
    this.page = page;
    page.on('pageerror', (error) => this.complaints.push(String(error)));
    page.on('console', (message) => {
      if (/Content Security Policy|React|Warning/.test(message.text())) this.complaints.push(message.text());
    });
  }

  /** Opens a page and waits until everything on it is loaded. @param path below the console's address */
  async open(path: string): Promise<void> {
    await this.page.goto(path);
    await this.page.getByRole('heading', { level: 1 }).waitFor();
    await this.page.locator('.loading').first().waitFor({ state: 'detached' });
  }

  async signIn({ email, password }: Pick<Person, 'email' | 'password'>): Promise<void> {
    await this.page.getByLabel('E-mail').fill(email);
    await this.page.getByLabel('Password').fill(password);
    await this.page.getByRole('button', { name: 'Sign in', exact: true }).click();
    await this.page.locator('.frame').waitFor();
  }

  /** Violations of the rules of axe-core that keep somebody from using the page. */
  async accessibilityViolations(): Promise<string[]> {
    // The policy of the page forbids scripts of others, but not those of a debugger.
    await this.page.evaluate(axe.source);
    return this.page.evaluate(async () => {
      const { violations } = await (globalThis as unknown as { axe: typeof axe }).axe.run();
      return violations
        .filter(({ impact }) => impact === 'serious' || impact === 'critical')
        .map(({ id, nodes }) => `${id}: ${nodes.map(({ target }) => target.join(' ')).join(', ')}`);
    });
  }

  async close(): Promise<void> {
    await this.context.close();
  }
}
