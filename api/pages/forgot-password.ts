import { html } from '../../domain/html.ts';
import type { ApiDependencies } from '../dependencies.ts';
import { requestResetByEmail } from '../new-password.ts';
import type { FormPage } from './form-page.ts';

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
