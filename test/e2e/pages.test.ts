import type { AddressInfo } from 'node:net';
import { User } from '../../db/entities/user.ts';
import { addAccountLink } from '../../db/repositories/account-links.ts';
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
