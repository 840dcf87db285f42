import { type Html, html } from '../../domain/html.ts';
import type { ApiDependencies } from '../dependencies.ts';
import { type AccessToken, signIn } from '../sign-in.ts';
import type { FormPage } from './form-page.ts';
import type { Page } from './frame.ts';

/**
 * A page for people who need an access token and have no console. Each identity provider has a button, which is a link.
 */
export const signInPage = (deps: ApiDependencies): FormPage => ({
  page: 'sign-in',
  query: [],
  fields: ['email', 'password'],
  form: ({ email = '' }) => ({
    title: 'Sign in',
    content: html`<label>E-mail <input type="email" name="email" value="${email}" autocomplete="username" required autofocus></label>
<label>Password <input type="password" name="password" autocomplete="current-password" required></label>
<p><a href="/account/forgot-password">Forgot your password?</a></p>`,
    button: 'Sign in',
    below: providerButtons(deps),
  }),
  async submit({ email = '', password = '' }, { ip: address }) {
    return signedInPage(await signIn(deps, { email, password, address }));
  },
});

function providerButtons({ identityProviders: { buttons } }: ApiDependencies): Html | null {
  if (buttons.length === 0) return null;
  const links = buttons.map(
    ({ label, url }) => html`\n<p><a class="button" href="${url}">Sign in with ${label}</a></p>`,
  );
  return html`\n<hr>${links}`;
}

/** Shows an access token once. */
export function signedInPage({ accessToken, expiresAt }: AccessToken): Page {
  return {
    title: 'You are signed in',
    content: html`<p>Your access token, for <code>Authorization: Bearer</code>. It works until ${expiresAt.toISOString()}.</p>
<p><code>${accessToken}</code></p>`,
  };
}
