import fs from 'node:fs';
import type { AddressInfo } from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { createApp } from '../../api/app.ts';
import { IdentityProviders } from '../../api/routes/accounts/oidc/identity-providers.ts';
import { addAccountLink } from '../../db/accounts/account-links.ts';
import { addEmailChangeToken } from '../../db/accounts/email-changes.ts';
import { User } from '../../db/accounts/user.entity.ts';
import type { EmailSide } from '../../domain/accounts/email-change.ts';
import { loadSettings } from '../../platform/config/settings.ts';
import { type Caller, startApi, type TestApi } from '../api/test-api.ts';
import { BrowserTab } from '../support/browser-tab.ts';
import { freePort } from '../support/free-port.ts';
import { IdentityProviderServer } from '../support/identity-provider.ts';

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

const title = () => tab.evaluate<string>('document.title');
const text = () => tab.evaluate<string>('document.body.innerText');

test.each(['sign-in', 'forgot-password', 'reset-password?token=x', 'confirm-email-change?token=x', ''])(
  '/account/%s follows the colours of the system, fits a phone, and is accessible',
  async (page) => {
    const colours = () =>
      tab.evaluate<string[]>(
        `[document.body, document.querySelector('main'), document.querySelector('input:not([type=hidden])') ?? document.body].map((each) => getComputedStyle(each).backgroundColor)`,
      );
    const address = page === '' ? url : `${url}/account/${page}`;
    const seen: string[][] = [];
    for (const scheme of ['light', 'dark'] as const) {
      await tab.prefer(scheme);
      await tab.resize(390, 844);
      await tab.goTo(address);
      expect(await tab.evaluate<number>('document.documentElement.scrollWidth')).toBeLessThanOrEqual(390);
      expect(await tab.accessibilityViolations()).toEqual([]);
      seen.push(await colours());
    }
    const [light, dark] = seen as [string[], string[]];
    expect(light.map((each) => Number(/\d+/.exec(each)![0]) > 200)).toEqual([true, true, true]);
    expect(dark.map((each) => Number(/\d+/.exec(each)![0]) < 60)).toEqual([true, true, true]);
    await tab.prefer('light');
    await tab.resize(1000, 640);
  },
);

test('a person sets a password through a link and signs in with it, in Chromium', async () => {
  const { userId } = api.root;
  const { email } = await api.orm.em.fork().findOneOrFail(User, { userId });
  const link = { token: 'the-token-of-the-link', purpose: 'password-reset' as const, userId, provesEmail: true };
  await addAccountLink(api.orm.em, { ...link, expiresAt: new Date(Date.now() + 600_000) });

  await tab.goTo(`${url}/account/reset-password?token=${link.token}`);
  expect(await title()).toBe('Set a new password');
  expect(await tab.evaluate('getComputedStyle(document.querySelector("button")).backgroundColor')).toBe(
    'rgb(26, 86, 219)',
  );
  await tab.submit({ new_password: 'korrekt pferd batterie', repeated: 'korrekt pferd' });
  expect(await text()).toContain('The two passwords differ');
  await tab.submit({ new_password: 'korrekt pferd batterie', repeated: 'korrekt pferd batterie' });
  expect(await title()).toBe('The new password is set');

  await tab.goTo(`${url}/account/sign-in`);
  await tab.submit({ email, password: 'korrekt pferd batterie' });
  expect(await title()).toBe('You are signed in');
  const [token] = /eyJ[\w.-]+/.exec(await text())!;
  const profile = await api.client.send('GET', '/v1/users/me', { headers: { authorization: `Bearer ${token}` } });
  expect(profile.body.data.email).toBe(email);
}, 90_000);

describe('the links that confirm a change of the e-mail of an account', () => {
  const emailChange = '/v1/user-management/account/email-change-request';
  const page = (token: string) => `${url}/account/confirm-email-change?token=${token}`;
  const form = 'Confirm the change of an e-mail address';
  const invalid = 'The link is not valid';
  let count = 0;

  /** A root user's request, and the tokens of both links as the mails store them. */
  async function begin() {
    const root = await api.addAccount();
    const [current, next] = [(await readProfile(root)).account.email as string, `moved-${++count}@example.com`];
    const asked = await api.send(root, 'POST', emailChange, { current_email: current, new_email: next });
    expect(asked.status).toBe(200);
    const [{ change_id: changeId }] = (await api.orm.em
      .fork()
      .execute('select change_id from email_changes where account_id = ?', [root.accountId])) as [
      { change_id: string },
    ];
    const tokens: Record<EmailSide, string> = { current: `current-${changeId}`, new: `new-${changeId}` };
    for (const side of ['current', 'new'] as const) {
      await addEmailChangeToken(api.orm.em, { changeId, side, token: tokens[side] });
    }
    return { root, changeId, tokens, emails: { current, new: next } };
  }
  const readProfile = async (root: Caller) => (await api.send(root, 'GET', '/v1/users/me')).body.data;
  const readStatus = async (root: Caller) =>
    (await api.send(root, 'GET', '/v1/user-management/account/email-change-status')).body.data.status;

  test.each([
    ['current', 'new'],
    ['new', 'current'],
  ] as const)(
    'take effect with the presses of the %s and the %s address, each once, in Chromium',
    async (first, second) => {
      const { root, tokens, emails } = await begin();
      await tab.goTo(page(tokens[first]));
      expect([await title(), await readStatus(root)]).toEqual([form, 'none_confirmed']);
      await tab.submit({});
      expect([await title(), await text()]).toEqual(['Confirmed', expect.stringContaining(emails[second])]);
      expect([await readStatus(root), (await readProfile(root)).account.email]).toEqual([
        'partial_confirmed',
        emails.current,
      ]);

      await tab.goTo(page(tokens[first]));
      await tab.submit({});
      expect([await title(), await text()]).toEqual([form, expect.stringContaining(invalid)]);
      expect(await readStatus(root)).toBe('partial_confirmed');

      await tab.goTo(page(tokens[second]));
      expect([await title(), await readStatus(root)]).toEqual([form, 'partial_confirmed']);
      await tab.submit({});
      expect(await title()).toBe('The e-mail address is changed');
      expect([await readStatus(root), (await readProfile(root)).account.email]).toEqual(['both_confirmed', emails.new]);

      await tab.goTo(page(tokens[second]));
      await tab.submit({});
      expect(await text()).toContain(invalid);
      expect((await readProfile(root)).account.email).toBe(emails.new);
    },
    90_000,
  );

  test('do nothing once they have expired, in Chromium', async () => {
    const { root, changeId, tokens, emails } = await begin();
    await tab.goTo(page(tokens.current));
    await tab.submit({});
    await tab.goTo(page(tokens.new));
    await api.orm.em.fork().execute('update email_changes set expires_at = now() where change_id = ?', [changeId]);
    await tab.submit({});
    expect([await title(), await text()]).toEqual([form, expect.stringContaining(invalid)]);
    expect([await readStatus(root), (await readProfile(root)).account.email]).toEqual([
      'none_confirmed',
      emails.current,
    ]);
  }, 90_000);
});

test('a person signs in through an identity provider with a click, and sees the reason of failures, in Chromium', async () => {
  const origin = `http://127.0.0.1:${await freePort()}`;
  const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'sandbox-platform-oidc-'));
  const secretFile = path.join(dir, 'secret');
  fs.writeFileSync(secretFile, 'secret-of-the-client');
  const redirectUri = `${origin}/v1/auth/oidc/corp/callback`;
  const provider = await IdentityProviderServer.start({
    clients: [{ clientId: 'platform', clientSecret: 'secret-of-the-client', redirectUri }],
  });
  const issuer = {
    ...{ id: 'corp', issuer: provider.issuer, client_id: 'platform', client_secret_file: secretFile },
    ...{ label: 'Example <Corp>', account_id: api.root.accountId, domains: ['corp.example'], create_users: true },
  };
  const settings = loadSettings({
    PLATFORM_SECRET_KEY: api.settings.PLATFORM_SECRET_KEY,
    DATABASE_URL: api.settings.DATABASE_URL,
    PLATFORM_URL: origin,
    PLATFORM_OIDC_ISSUERS: JSON.stringify([issuer]),
  });
  const identityProviders = new IdentityProviders(settings, { logger: api.dependencies.logger });
  const app = createApp({ ...api.dependencies, settings, identityProviders });
  try {
    await app.listen({ host: '127.0.0.1', port: Number(new URL(origin).port) });
    provider.person = { sub: '42', email: 'ada@corp.example', email_verified: true };
    await tab.goTo(`${origin}/account/sign-in`);
    expect(await text()).toContain('Sign in with Example <Corp>');
    expect(await tab.evaluate('getComputedStyle(document.querySelector("a.button")).backgroundColor')).toBe(
      'rgb(26, 86, 219)',
    );
    await tab.follow('a.button');
    expect(await title()).toBe('Who are you?');
    await tab.submit({});
    expect(await title()).toBe('You are signed in');
    const [token] = /eyJ[\w.-]+/.exec(await text())!;
    const profile = await api.client.send('GET', '/v1/users/me', { headers: { authorization: `Bearer ${token}` } });
    expect(profile.body.data).toMatchObject({ email: 'ada@corp.example', oauth_provider_id: '42' });

    // Opening the address of the answer again does not sign in.
    await tab.goTo(await tab.evaluate<string>('location.href'));
    expect([await title(), await text()]).toEqual([
      'This did not work',
      expect.stringContaining('sign_in_not_pending'),
    ]);

    provider.person = { sub: '43', email: 'eve@corp.example', email_verified: false };
    await tab.goTo(`${origin}/account/sign-in`);
    await tab.follow('a.button');
    await tab.submit({});
    expect([await title(), await text()]).toEqual(['This did not work', expect.stringContaining('email_not_verified')]);
    await tab.follow('main a');
    expect(await title()).toBe('Sign in');
  } finally {
    await app.close();
    await provider.stop();
    fs.rmSync(dir, { recursive: true });
  }
}, 120_000);

test('the first page leads to the reference, which shows the API and the agent', async () => {
  await tab.goTo(`${url}/`);
  expect([await title(), await text()]).toEqual(['Sandbox platform', expect.stringContaining('X-API-Key')]);
  await tab.follow('a[href="/docs"]');
  expect(await text()).toContain('Create a sandbox');
  await tab.follow('a[href="/docs/agent"]');
  expect(await text()).toContain('Whether the agent answers');
});

test('no script of any origin runs on a page', async () => {
  await tab.goTo(`${url}/account/sign-in`);
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
