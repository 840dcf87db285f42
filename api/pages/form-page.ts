import type { FastifyReply, FastifyRequest } from 'fastify';
import { z } from 'zod';
import { AppError } from '../../domain/errors.ts';
import { type Html, html } from '../../domain/html.ts';
import { type AccountPage, accountPageUrl } from '../../platform/config/public-urls.ts';
import { anyone } from '../access.ts';
import type { Api, ApiDependencies } from '../dependencies.ts';
import { retryAfterSeconds } from '../plugins/errors.ts';
import { type Page, sendPage } from './frame.ts';

/** A form that has no effect until its button is pressed. */
export interface FormPage {
  page: AccountPage;
  /** Fields that the address may contain. */
  query: readonly string[];
  /** Fields of the form, including those of the address. */
  fields: readonly string[];
  /**
   * @param values the values of the address, or of a refused form
   * @returns the parts of the page; `below` is shown below the form
   */
  form(values: FormValues): { title: string; content: Html; button: string; below?: Html | null };
  /** @throws {AppError} an error to show above the form, which can be submitted again */
  submit(values: FormValues, request: FastifyRequest): Promise<Page>;
}

export type FormValues = Readonly<Record<string, string>>;

/** Longer than every password and token. */
const maxFieldLength = 4096;

/** Serves a form page under `/account`. If the operator has configured own pages, its address redirects there. */
export function serveFormPage(api: Api, { settings }: ApiDependencies, page: FormPage): void {
  const url = `/account/${page.page}`;
  const access = anyone({ requestsPerMinute: 60 });
  const values = (names: readonly string[]) =>
    z.object(Object.fromEntries(names.map((name) => [name, z.string().max(maxFieldLength).default('')])));

  const sendForm = (reply: FastifyReply, status: number, given: FormValues, problem: string | null) => {
    const { title, content, button, below = null } = page.form(given);
    return sendPage(reply, status, {
      title,
      content: html`${problem === null ? null : html`<p class="problem" role="alert">${problem}</p>\n`}<form method="post" action="${url}">
<input type="hidden" name="_csrf" value="${reply.generateCsrf()}">
${content}
<button>${button}</button>
</form>${below}`,
    });
  };

  api.route({
    method: 'GET',
    url,
    config: { access },
    schema: { hide: true, querystring: values(page.query) },
    handler: async (request, reply) => {
      const given = request.query as FormValues;
      if (!settings.PLATFORM_CONSOLE_URL) return sendForm(reply, 200, given, null);
      const brought = Object.fromEntries(Object.entries(given).filter(([, value]) => value !== ''));
      return reply.header('referrer-policy', 'no-referrer').redirect(accountPageUrl(settings, page.page, brought));
    },
  });

  api.route({
    method: 'POST',
    url,
    config: { access },
    preValidation: (request, reply, done) => api.csrfProtection(request, reply, done),
    schema: { hide: true, body: values(page.fields) },
    handler: async (request, reply) => {
      const given = request.body as FormValues;
      try {
        return sendPage(reply, 200, await page.submit(given, request));
      } catch (error) {
        if (!(error instanceof AppError) || error.status >= 500) throw error;
        const retryAfter = retryAfterSeconds(error);
        if (retryAfter !== undefined) reply.header('retry-after', retryAfter);
        return sendForm(reply, error.status, given, error.message);
      }
    },
  });
}
