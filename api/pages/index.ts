import cookie, { Signer } from '@fastify/cookie';
import csrfProtection from '@fastify/csrf-protection';
import formbody from '@fastify/formbody';
import type { FastifyInstance } from 'fastify';
import { AppError } from '../../domain/errors.ts';
import { apiUrl } from '../../platform/config/public-urls.ts';
import { anyone } from '../access.ts';
import type { Api, ApiDependencies } from '../dependencies.ts';
import { failureOf } from '../plugins/errors.ts';
import { serveAddCard } from './add-card.ts';
import { confirmEmailChangePage } from './confirm-email-change.ts';
import { serveFirstPage } from './first-page.ts';
import { forgotPasswordPage } from './forgot-password.ts';
import { serveFormPage } from './form-page.ts';
import { sendProblemPage, style, stylePath } from './frame.ts';
import { resetPasswordPage } from './reset-password.ts';
import { signInPage } from './sign-in.ts';

const pages = [resetPasswordPage, signInPage, forgotPasswordPage, confirmEmailChangePage];

/**
 * Small pages for people: `/`, and those under `/account` behind the links in mails. They are rendered on the server
 * and need no script, except for the page that adds a card. Opening a page changes nothing. Its button sends a POST
 * with an anti-forgery token that only the page contains.
 */
export async function pagesForPeople(app: FastifyInstance, deps: ApiDependencies): Promise<void> {
  const signer = () => new Signer(deps.formKeys().map((key) => key.toString('base64')));
  await app.register(cookie, {
    // The keys change while the process runs.
    secret: { sign: (value) => signer().sign(value), unsign: (value) => signer().unsign(value) },
  });
  const secure = apiUrl(deps.settings).startsWith('https:');
  await app.register(csrfProtection, {
    cookieKey: 'account-form',
    cookieOpts: { path: '/account', sameSite: 'strict', httpOnly: true, signed: true, secure },
  });
  await app.register(formbody);
  app.setErrorHandler((error, request, reply) => {
    return sendProblemPage(reply, failureOf(asExpired(error), request, reply));
  });
  app.get(stylePath, { config: { access: anyone({ requestsPerMinute: 120 }) }, schema: { hide: true } }, (_, reply) =>
    reply.type('text/css; charset=utf-8').header('cache-control', 'max-age=3600').send(style),
  );
  serveFirstPage(app, deps);
  serveAddCard(app as unknown as Api, deps);
  for (const page of pages) serveFormPage(app as unknown as Api, deps, page(deps));
}

function asExpired(error: unknown): unknown {
  const isForged = String((error as { code?: string }).code).startsWith('FST_CSRF');
  return isForged
    ? new AppError('form_expired', 'The form has expired; go back, load the page again, and repeat')
    : error;
}
