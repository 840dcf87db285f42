import type { AddressInfo } from 'node:net';
import path from 'node:path';
import { startApi, type TestApi } from '../api/test-api.ts';
import { BrowserTab } from '../support/browser-tab.ts';

/** The guide and the reference in Chromium; screenshots go to `WEB_PAGES_SCREENSHOTS`. */
let api: TestApi;
let tab: BrowserTab;
let url: string;

beforeAll(async () => {
  [api, tab] = await Promise.all([startApi({ env: { PLATFORM_RATE_LIMIT_PER_ADDRESS: '0' } }), BrowserTab.open()]);
  await api.app.listen({ host: '127.0.0.1', port: 0 });
  url = `http://127.0.0.1:${(api.app.server.address() as AddressInfo).port}`;
}, 120_000);
afterAll(async () => {
  await tab?.close();
  await api?.stop();
});

const isShown = (selector: string) =>
  tab.evaluate<boolean>(`(document.querySelector(${JSON.stringify(selector)})?.offsetHeight ?? 0) > 0`);
const left = (selector: string) =>
  tab.evaluate<number>(`document.querySelector(${JSON.stringify(selector)}).getBoundingClientRect().left`);

test.each([390, 768, 1280, 1920])(
  'at %i pixels, in light and in dark, pages fit the window, are accessible, and break no policy',
  async (width) => {
    for (const scheme of ['light', 'dark'] as const) {
      await tab.prefer(scheme);
      await tab.resize(width, 900);
      for (const page of [
        '/guide',
        '/guide/lifecycle',
        '/guide/comparison',
        '/docs',
        '/docs/templates',
        '/docs/events',
        '/guide/search?q=pause',
      ]) {
        await tab.goTo(`${url}${page}`);
        const folder = process.env.WEB_PAGES_SCREENSHOTS;
        const name = `${page.replace(/\W+/g, '-').slice(1)}-${width}-${scheme}.png`;
        if (folder) await tab.screenshot(path.join(folder, name));
        expect(await tab.evaluate<number>('document.documentElement.scrollWidth')).toBeLessThanOrEqual(width);
        expect([page, await tab.accessibilityViolations()]).toEqual([page, []]);
      }
      const [background] = await tab.evaluate<string[]>(`[getComputedStyle(document.body).backgroundColor]`);
      expect(background).toBe(scheme === 'dark' ? 'rgb(22, 24, 29)' : 'rgb(255, 255, 255)');
    }
    expect(tab.reported).toEqual([]);
  },
  240_000,
);

test('the navigation is beside the text in a wide window, and below it in a narrow one', async () => {
  await tab.resize(1280, 900);
  await tab.goTo(`${url}/guide/lifecycle`);
  expect(await left('nav.pages')).toBeLessThan(await left('main'));
  expect([await isShown('nav.contents'), await isShown('.menu')]).toEqual([true, false]);
  expect(await tab.evaluate(`document.querySelector('nav.pages [aria-current]').textContent`)).toBe(
    'The life of a sandbox',
  );
  await tab.resize(390, 844);
  expect([await isShown('nav.contents'), await isShown('.menu')]).toEqual([false, true]);
  expect(await left('nav.pages')).toBe(0);
  await tab.resize(1280, 900);
});

test('a person searches, opens a result at its section, and unfolds an example, without a script', async () => {
  await tab.goTo(`${url}/docs`);
  await tab.follow('a[href="/guide"]');
  await tab.submit({ q: 'pause a running sandbox' });
  await tab.follow('a[href="/docs/sandboxes#pauseSandbox"]');
  expect(await tab.evaluate('document.title')).toContain('Sandboxes');
  const top = await tab.evaluate<number>(`document.querySelector('#pauseSandbox').getBoundingClientRect().top`);
  expect(top).toBeGreaterThanOrEqual(50);
  expect(top).toBeLessThan(900);
  const section = `document.querySelector('section[aria-labelledby=pauseSandbox]')`;
  const height = () => tab.evaluate<number>(`${section}.offsetHeight`);
  const folded = await height();
  await tab.evaluate(`${section}.querySelector('summary').click()`);
  expect(await height()).toBeGreaterThan(folded);
  expect(await tab.evaluate('document.scripts.length')).toBe(0);
});
