import { ApiKey } from '../../../db/accounts/api-key.entity.ts';
import { type Caller, startApi, type TestApi } from '../../api/test-api.ts';
import { BrowserTab } from '../../support/browser-tab.ts';
import { freePort } from '../../support/free-port.ts';
import { cards, TestProcessor } from '../../support/payment-processor.ts';
import { until } from '../../support/until.ts';

/**
 * The page that adds a card, in Chromium, with localstripe's script. Stripe's own script is not available without
 * internet access.
 */
let processor: TestProcessor;
let api: TestApi;
let tab: BrowserTab;
let root: Caller;

beforeAll(async () => {
  processor = await TestProcessor.start();
  const port = await freePort();
  const env = {
    ...{ ...processor.env, PLATFORM_STRIPE_SCRIPT_URL: processor.scriptUrl },
    ...{ PLATFORM_URL: `http://127.0.0.1:${port}`, PLATFORM_RATE_LIMIT_PER_ADDRESS: '0' },
  };
  [api, tab] = await Promise.all([startApi({ env }), BrowserTab.open()]);
  await api.app.listen({ host: '127.0.0.1', port });
}, 120_000);
beforeEach(async () => {
  root = await api.addAccount();
});
afterAll(async () => {
  await tab?.close();
  await api?.stop();
  await processor?.stop();
});

const text = () => tab.evaluate<string>('document.body.innerText');
const shows = (what: string) => until(async () => (await text()).includes(what));
const link = async (): Promise<string> => (await api.send(root, 'POST', '/v1/payment/methods/link')).body.data.url;
const methods = async () => (await api.send(root, 'GET', '/v1/payment/methods')).body.data.payment_methods;
const press = (label: string) =>
  tab.evaluate(
    `[...document.querySelectorAll('button')].find((each) => each.textContent === ${JSON.stringify(label)}).click()`,
  );

/** Opens a link and types a card into the processor's fields. */
async function giveCard(number: string, url?: string): Promise<void> {
  if (url) await tab.goTo(url);
  await until(() => tab.evaluate<boolean>(`document.querySelector('form')?.hidden === false`));
  const fields = { number, exp_month: '12', exp_year: '40', cvc: '123', postal_code: '10115' };
  await tab.evaluate(`for (const [name, value] of Object.entries(${JSON.stringify(fields)})) {
    const field = document.querySelector('#card input[placeholder=' + name + ']');
    field.value = value;
    field.dispatchEvent(new Event('input', { bubbles: true }));
  }`);
  await press('Add the card');
}

test('a card is added, and the link is in no address, history or log', async () => {
  const url = await link();
  expect(url).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/account\/add-card#eyJ/);
  const [, token] = url.split('#') as [string, string];
  await giveCard(cards.good, url);
  await shows('The card is added: visa •••• 4242');
  expect(await methods()).toMatchObject([{ last4: '4242', is_default: true, is_verified: true }]);
  expect(await tab.evaluate('location.href + document.referrer')).toBe(url.split('#')[0]);
  expect(api.log.join('\n')).not.toContain(token);
  expect(api.log.join('\n')).not.toContain('_secret_');
  // The page's policy blocks nothing that the page needs.
  expect(tab.reported).toEqual([]);
  // Opened again, the link shows its result and adds no other card.
  await tab.goTo(url);
  await shows('The card is added: visa •••• 4242');
  expect(await tab.evaluate(`document.querySelector('form').hidden`)).toBe(true);
}, 90_000);

test('a declined card is shown as such, and another one is added instead', async () => {
  await giveCard(cards.declined, await link());
  await shows('Your card was declined.');
  expect(await tab.evaluate(`document.querySelector('#state').className`)).toBe('problem');
  expect(await methods()).toEqual([]);
  await giveCard(cards.otherGood);
  await shows('•••• 4444');
  expect(await methods()).toMatchObject([{ last4: '4444' }]);
}, 90_000);

test('a card whose bank needs the owner’s confirmation is added only after it', async () => {
  await giveCard(cards.asksForOwner, await link());
  await shows('3D Secure');
  expect(await methods()).toEqual([]);
  await press('Fail authentication');
  await shows('authentication failed');
  expect(await methods()).toEqual([]);
  await giveCard(cards.asksForOwner);
  await shows('3D Secure');
  await press('Complete authentication');
  await shows('The card is added: visa •••• 3155');
  expect(await methods()).toMatchObject([{ last4: '3155', is_verified: true }]);
}, 90_000);

test('a processor that does not answer for a while delays the card, and nothing is lost', async () => {
  await tab.goTo(await link());
  await until(() => tab.evaluate<boolean>(`document.querySelector('form')?.hidden === false`));
  processor.failNext(/GET \/v1\/setup_intents/, 'lost');
  await giveCard(cards.good);
  await shows('The card is added');
  expect(await methods()).toHaveLength(1);
}, 90_000);

test('an invalid or expired link is shown as such', async () => {
  await tab.goTo(`${api.settings.PLATFORM_URL}/account/add-card`);
  await shows('This page needs the link');
  const url = await link();
  await tab.goTo(`${url}x`);
  await shows('The link is not valid');
  await api.orm.em.fork().nativeUpdate(ApiKey, { keyId: root.keyId }, { isActive: false });
  await tab.goTo(url);
  await shows('The link is not valid');
  expect(await tab.evaluate(`document.querySelector('form').hidden`)).toBe(true);
}, 90_000);

test("the page loads only its own and the processor's scripts and requests", async () => {
  await tab.goTo(await link());
  await until(() => tab.evaluate<boolean>(`document.querySelector('form')?.hidden === false`));
  const ran = await tab.evaluate<boolean>(`(() => {
    const script = document.createElement('script');
    script.textContent = 'window.ran = true';
    document.body.append(script);
    return window.ran === true;
  })()`);
  expect(ran).toBe(false);
  const elsewhere = `http://127.0.0.1:${await freePort()}/`;
  await tab.evaluate(`void fetch(${JSON.stringify(elsewhere)}).catch(() => { window.refused = true })`);
  await until(() => tab.evaluate<boolean>('window.refused === true'));
  // The browser reports with a short delay.
  await until(() => tab.reported.filter((each) => each.includes('Content Security Policy')).length >= 2);
}, 90_000);
