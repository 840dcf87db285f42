import fs from 'node:fs';
import type { AddressInfo } from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { createApp } from '../../api/app.ts';
import { IdentityProviders } from '../../api/oidc/identity-providers.ts';
import { loadSettings } from '../../config/settings.ts';
import { User } from '../../db/entities/user.ts';
import { addAccountLink } from '../../db/repositories/account-links.ts';
import { startApi, type TestApi } from '../api/test-api.ts';
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

test('a person sets a password behind a link and signs in with it, in Chromium', async () => {
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

test('a person signs in through an identity provider with a click, and is shown why it fails, in Chromium', async () => {
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

    // The address of the answer, opened again, signs nobody in.
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

test('no script runs on a page, wherever it comes from', async () => {
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
