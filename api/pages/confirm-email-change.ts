import { confirmEmailChange } from '../../db/accounts/email-changes.ts';
import { html } from '../../domain/html.ts';
import type { ApiDependencies } from '../dependencies.ts';
import type { FormPage } from './form-page.ts';

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
