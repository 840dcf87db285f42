import type { AddressInfo } from 'node:net';
import { startApi, type TestApi } from '../api/test-api.ts';
import { BrowserTab } from '../support/browser-tab.ts';

let api: TestApi;
let tab: BrowserTab;
let url: string;

beforeAll(async () => {
  [api, tab] = await Promise.all([startApi(), BrowserTab.open()]);
  await api.app.listen({ host: '127.0.0.1', port: 0 });
  url = `http://127.0.0.1:${(api.app.server.address() as AddressInfo).port}`;
}, 120_000);
afterAll(async () => {
  await tab?.close();
  await api?.stop();
});

/** A link with two tokens. */
const problem = '/account/reset-password?token=a&token=b';

const title = () => tab.evaluate<string>('document.title');
const text = () => tab.evaluate<string>('document.body.innerText');

test('a page with a problem follows the colours of the system, fits a phone, and is accessible', async () => {
  const colours = () =>
    tab.evaluate<string[]>(
      `[document.body, document.querySelector('main')].map((each) => getComputedStyle(each).backgroundColor)`,
    );
  const seen: string[][] = [];
  for (const scheme of ['light', 'dark'] as const) {
    await tab.prefer(scheme);
    await tab.resize(390, 844);
    await tab.goTo(url + problem);
    expect(await tab.evaluate<number>('document.documentElement.scrollWidth')).toBeLessThanOrEqual(390);
    expect(await tab.accessibilityViolations()).toEqual([]);
    seen.push(await colours());
  }
  const [light, dark] = seen as [string[], string[]];
  expect(light.map((each) => Number(/\d+/.exec(each)![0]) > 200)).toEqual([true, true]);
  expect(dark.map((each) => Number(/\d+/.exec(each)![0]) < 60)).toEqual([true, true]);
  await tab.prefer('light');
  await tab.resize(1000, 640);
}, 60_000);

test('the reference shows the API and the agent', async () => {
  await tab.goTo(`${url}/docs`);
  expect(await text()).toContain('Create a sandbox');
  await tab.follow('a[href="/docs/agent"]');
  expect(await text()).toContain('Whether the agent answers');
});

test('no script of any origin runs on a page', async () => {
  await tab.goTo(url + problem);
  expect(await title()).toBe('This did not work');
  const ran = `(() => {
    const script = document.createElement('script');
    script.textContent = 'window.ran = true';
    document.body.append(script);
    const image = document.createElement('img');
    image.setAttribute('onerror', 'window.ran = true');
    image.src = 'data:,';
    document.body.append(image);
    return window.ran === true;
  })()`;
  expect(await tab.evaluate(ran)).toBe(false);
});
