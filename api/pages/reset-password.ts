import { minPasswordLength } from '../../domain/accounts/password-rules.ts';
import { AppError } from '../../domain/errors.ts';
import { html } from '../../domain/html.ts';
import type { ApiDependencies } from '../dependencies.ts';
import { setPasswordByLink } from '../new-password.ts';
import type { FormPage } from './form-page.ts';

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
