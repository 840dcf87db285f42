import { randomBytes } from 'node:crypto';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { jest } from '@jest/globals';
import type { FastifyInstance } from 'fastify';
import { createApp } from '../../api/app.ts';
import { IdentityProviders } from '../../api/routes/accounts/oidc/identity-providers.ts';
import { User } from '../../db/accounts/user.entity.ts';
import { loadSettings } from '../../platform/config/settings.ts';
import { type Caller, startApi, type TestApi } from '../api/test-api.ts';
import { ConsoleBrowser, type ConsoleTab } from '../support/console-browser.ts';
import { freePort } from '../support/free-port.ts';
import { IdentityProviderServer } from '../support/identity-provider.ts';
import { withPassword } from './api-people.ts';

/** The sign-in through an identity provider, with the button of the console. */
jest.setTimeout(60_000);

const clientSecret = randomBytes(16).toString('hex');
let api: TestApi;
let app: FastifyInstance;
let root: Caller;
let there: IdentityProviderServer;
let browser: ConsoleBrowser;
let tab: ConsoleTab;
let dir: string;

beforeAll(async () => {
  const [origin, unlimited] = [
    `http://127.0.0.1:${await freePort()}`,
    { PLATFORM_RATE_LIMIT_PER_ADDRESS: '0', PLATFORM_RATE_LIMIT_PER_KEY: '0' },
  ];
  api = await startApi({ env: { ...unlimited, PLATFORM_URL: origin } });
  root = await api.addAccount();
  dir = fs.mkdtempSync(path.join(os.tmpdir(), 'sandbox-platform-oidc-'));
  fs.writeFileSync(path.join(dir, 'secret'), clientSecret);
  const redirectUri = `${origin}/v1/auth/oidc/corp/callback`;
  there = await IdentityProviderServer.start({ clients: [{ clientId: 'corp', clientSecret, redirectUri }] });
  const issuer = {
    ...{ id: 'corp', issuer: there.issuer, client_id: 'corp', client_secret_file: path.join(dir, 'secret') },
    ...{ label: 'Example Corp', account_id: root.accountId, domains: ['corp.example'], create_users: false },
  };
  const settings = loadSettings({
    ...unlimited,
    PLATFORM_SECRET_KEY: api.settings.PLATFORM_SECRET_KEY,
    DATABASE_URL: api.settings.DATABASE_URL,
    PLATFORM_URL: origin,
    PLATFORM_OIDC_ISSUERS: JSON.stringify([issuer]),
  });
  const identityProviders = new IdentityProviders(settings, { logger: api.dependencies.logger });
  app = createApp({ ...api.dependencies, settings, identityProviders });
  await app.listen({ host: '127.0.0.1', port: Number(new URL(origin).port) });
  browser = await ConsoleBrowser.open(origin);
}, 120_000);
beforeEach(async () => {
  tab = await browser.newTab();
});
afterEach(async () => {
  const { complaints } = tab;
  await tab.close();
  there.instead = null;
  expect(complaints).toEqual([]);
});
afterAll(async () => {
  await browser?.close();
  await app?.close();
  await there?.stop();
  await api?.stop();
  fs.rmSync(dir, { recursive: true, force: true });
});

/** @param email of somebody whom the provider knows */
const person = (email: string) => ({ sub: `sub-${email}`, email, email_verified: true, name: 'Ada Lovelace' });

/** A user without a password, whom a root user has invited. */
async function invite(): Promise<string> {
  const { userId } = await api.addUser(root);
  const email = `ada-${randomBytes(4).toString('hex')}@corp.example`;
  await api.orm.em.fork().nativeUpdate(User, { userId }, { email });
  return email;
}

const providerButton = () => tab.page.getByRole('link', { name: 'Sign in with Example Corp' });

test('its button signs a person in, who comes back to the address that they asked for', async () => {
  const email = await invite();
  there.person = person(email);
  await tab.page.goto('projects?sort_order=asc');
  await providerButton().waitFor();
  expect(await tab.accessibilityViolations()).toEqual([]);
  await providerButton().click();
  await tab.page.getByRole('button', { name: 'It is me' }).click();
  await tab.page.getByRole('heading', { level: 1, name: 'Projects' }).waitFor();
  expect(new URL(tab.page.url()).pathname + new URL(tab.page.url()).search).toBe('/console/projects?sort_order=asc');
  expect(await tab.context.cookies()).toContainEqual(expect.objectContaining({ httpOnly: true, sameSite: 'Strict' }));
  await tab.open('profile');
  await tab.page.getByText(`You sign in through ${there.issuer}, and have no password here.`).waitFor();
  expect(await tab.page.getByRole('button', { name: 'Change the password' }).count()).toBe(0);
});

test('a declined sign-in says so, and the next one works', async () => {
  there.person = person(await invite());
  await tab.page.goto('keys');
  // The provider answers at once that the person has declined.
  there.instead = (asked, reply) => {
    if (!asked.startsWith('/interaction/')) return false;
    const from = new URL(declined);
    const back = new URL(from.searchParams.get('redirect_uri')!);
    back.search = `${new URLSearchParams({
      error: 'access_denied',
      state: from.searchParams.get('state')!,
      iss: there.issuer,
    })}`;
    reply.writeHead(302, { location: back.href }).end();
    return true;
  };
  let declined = '';
  tab.page.on('request', (request) => {
    if (new URL(request.url()).pathname === '/auth') declined = request.url();
  });
  await providerButton().click();
  const alert = tab.page.getByRole('alert');
  await alert.waitFor();
  expect(await alert.textContent()).toContain('The sign-in was cancelled. Code sign_in_declined');
  expect(await tab.accessibilityViolations()).toEqual([]);
  there.instead = null;
  await providerButton().click();
  await tab.page.getByRole('button', { name: 'It is me' }).click();
  await tab.page.locator('.frame').waitFor();
});

test.each([
  ['nobody@corp.example', 'Nobody has invited this address. Ask a root user of your account.'],
  ['nobody@other.example', 'email_domain_not_allowed'],
])('the sign-in of %s is refused, and the page says why', async (email, why) => {
  there.person = person(email);
  await tab.page.goto('./');
  await providerButton().click();
  await tab.page.getByRole('button', { name: 'It is me' }).click();
  await tab.page.getByRole('alert').getByText(why).waitFor();
  expect(await tab.context.cookies()).not.toContainEqual(expect.objectContaining({ name: 'sandbox-session' }));
});

test('the sign-in page shows the error of its address as text, whatever it contains', async () => {
  await tab.page.goto(`sign-in?error=${encodeURIComponent('<img src=x onerror=alert(1)>\u202e')}`);
  const alert = tab.page.getByRole('alert');
  expect(await alert.textContent()).toBe('The sign-in did not work. Code <img src=x onerror=alert(1)>⟨202E⟩');
  expect(await tab.page.locator('img[src=x]').count()).toBe(0);
});

test('a person with a password signs in beside it', async () => {
  const withOne = await withPassword(api, await api.addUser(root));
  await tab.page.goto('profile');
  await tab.signIn(withOne);
  await tab.page.getByText('You sign in with your e-mail and a password.').waitFor();
  expect(await tab.page.getByRole('button', { name: 'Change the password' }).count()).toBe(1);
});
