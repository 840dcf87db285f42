import cookie, { Signer } from '@fastify/cookie';
import csrfProtection from '@fastify/csrf-protection';
import formbody from '@fastify/formbody';
import type { FastifyInstance } from 'fastify';
import { AppError } from '../../domain/errors.ts';
import { html } from '../../domain/html.ts';
import { accountPageUrl, apiUrl } from '../../platform/config/public-urls.ts';
import { anyone } from '../access.ts';
import type { Api, ApiDependencies } from '../dependencies.ts';
import { reportFailure } from '../plugins/errors.ts';
import { confirmEmailChangePage, forgotPasswordPage, resetPasswordPage, signInPage } from './account-forms.ts';
import { serveAddCard } from './add-card.ts';
import { serveFormPage } from './form-page.ts';
import { sendPage, sendProblemPage, style, stylePath } from './frame.ts';

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
    return sendProblemPage(reply, reportFailure(asExpired(error), request, reply));
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

/** `GET /`: introduces the platform, with links, to a person who opens the address of the API in a browser. */
function serveFirstPage(app: FastifyInstance, { settings }: ApiDependencies): void {
  const url = apiUrl(settings);
  const temporal = settings.TEMPORAL_UI_URL;
  const content = html`<p>This is the API of a sandbox platform: isolated development sandboxes that programs create, use, pause and end.</p>
<ul>
<li><a href="/guide">Guide</a>: how to use and operate the platform, beginning with the <a href="/guide/quick-start">quick start</a></li>
<li><a href="/docs">Reference of the API</a> (<a href="/openapi.json">OpenAPI document</a>)</li>
${temporal ? html`<li><a href="${temporal}">Temporal Web UI</a>: every sandbox as a workflow, for operators</li>\n` : null}<li>Each sandbox has its own domain: <code>&lt;sandbox&gt;.${settings.PLATFORM_BASE_DOMAIN}</code></li>
<li><a href="/clients">Clients</a> for TypeScript, Python, the command line and AI agents</li>
<li><a href="/readyz">Is it ready?</a></li>
</ul>
<h2>A key</h2>
<p>Requests carry an API key in the header <code>X-API-Key</code>. <code>npm start</code> writes the first one to
<code>.data/platform.env</code>; <code>set -a; . .data/platform.env; set +a</code> exports it to a shell and its programs. Users <a href="${accountPageUrl(settings, 'sign-in')}">sign in</a> and make keys with
<code>POST /v1/api-keys</code>.</p>
<pre tabindex="0">curl -H "X-API-Key: $PLATFORM_API_KEY" ${url}/v1/users/me</pre>`;
  app.get('/', { config: { access: anyone({ requestsPerMinute: 120 }) }, schema: { hide: true } }, (_request, reply) =>
    sendPage(reply, 200, { title: 'Sandbox platform', content }),
  );
}
