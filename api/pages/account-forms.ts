import { confirmEmailChange } from '../../db/accounts/email-changes.ts';
import { minPasswordLength } from '../../domain/accounts/password-rules.ts';
import { AppError } from '../../domain/errors.ts';
import { type Html, html } from '../../domain/html.ts';
import type { ApiDependencies } from '../dependencies.ts';
import { requestResetByEmail, setPasswordByLink } from '../routes/accounts/sign-in/new-password.ts';
import { type AccessToken, signIn } from '../routes/accounts/sign-in/with-password.ts';
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

/** The page that mails a link to set a new password. */
export const forgotPasswordPage = (deps: ApiDependencies): FormPage => ({
  page: 'forgot-password',
  query: [],
  fields: ['email'],
  form: ({ email = '' }) => ({
    title: 'Forgot your password?',
    content: html`<p>You get an e-mail with a link to set a new password.</p>
<label>E-mail <input type="email" name="email" value="${email}" autocomplete="username" required autofocus></label>`,
    button: 'Mail the link',
  }),
  async submit({ email = '' }) {
    await requestResetByEmail(deps, email);
    return {
      title: 'Check your e-mail',
      content: html`<p>If a user has this e-mail, we have sent a link to set a new password there. It works for 30 minutes.</p>`,
    };
  },
});

/** The page behind the link to set a new password. */
export const resetPasswordPage = (deps: ApiDependencies): FormPage => ({
  page: 'reset-password',
  query: ['token'],
  fields: ['token', 'new_password', 'repeated'],
  form: ({ token = '' }) => ({
    title: 'Set a new password',
    content: html`<input type="hidden" name="token" value="${token}">
<label>New password <input type="password" name="new_password" autocomplete="new-password" minlength="${minPasswordLength}" required autofocus></label>
<label>The same again <input type="password" name="repeated" autocomplete="new-password" required></label>`,
    button: 'Set the password',
  }),
  async submit({ token = '', new_password: password = '', repeated }, { ip: address }) {
    if (password !== repeated) throw new AppError('validation_failed', 'The two passwords differ');
    await setPasswordByLink(deps, { token, password, address });
    return {
      title: 'The new password is set',
      content: html`<p>All sessions have ended. <a href="/account/sign-in">Sign in</a> with the new password.</p>`,
    };
  },
});

/** The page behind the links that both addresses get when the e-mail address of an account is to be changed. */
export const confirmEmailChangePage = (deps: ApiDependencies): FormPage => ({
  page: 'confirm-email-change',
  query: ['token'],
  fields: ['token'],
  form: ({ token = '' }) => ({
    title: 'Confirm the change of an e-mail address',
    content: html`<input type="hidden" name="token" value="${token}">`,
    button: 'Confirm the change',
  }),
  async submit({ token = '' }) {
    const { pendingEmail } = await confirmEmailChange(deps.orm.em, token);
    return pendingEmail === null
      ? { title: 'The e-mail address is changed', content: html`<p>Both addresses have confirmed.</p>` }
      : { title: 'Confirmed', content: html`<p>The change takes effect when ${pendingEmail} has confirmed, too.</p>` };
  },
});
