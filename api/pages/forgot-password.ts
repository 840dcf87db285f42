import { html } from '../../domain/html.ts';
import type { ApiDependencies } from '../dependencies.ts';
import { requestResetByEmail } from '../new-password.ts';
import type { FormPage } from './form-page.ts';

/** Has a link to a new password mailed. */
export const forgotPasswordPage = (deps: ApiDependencies): FormPage => ({
  page: 'forgot-password',
  query: [],
  fields: ['email'],
  form: ({ email = '' }) => ({
    title: 'Forgot your password?',
    content: html`<p>A link to set a new one goes to your e-mail.</p>
<label>E-mail <input type="email" name="email" value="${email}" autocomplete="username" required autofocus></label>`,
    button: 'Mail the link',
  }),
  async submit({ email = '' }) {
    await requestResetByEmail(deps, email);
    return {
      title: 'Look into your mail',
      content: html`<p>If a user has this e-mail, a link to a new password goes there. It works for 30 minutes.</p>`,
    };
  },
});
