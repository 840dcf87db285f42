import type { FastifyInstance } from 'fastify';
import { z } from 'zod';
import { html } from '../../domain/html.ts';
import { type AccountPage, accountPages, accountPageUrl, apiUrl } from '../../platform/config/public-urls.ts';
import { anyone } from '../access.ts';
import type { Api, ApiDependencies } from '../dependencies.ts';
import { reportFailure } from '../plugins/errors.ts';
import { optionalQuery } from '../schemas/fields.ts';
import { serveAddCard } from './add-card.ts';
import { sendPage, sendProblemPage, style, stylePath } from './frame.ts';

/**
 * Small pages for people: `/`, and the page that adds a card, which is the only one with a script. The other addresses
 * under `/account` are those of links in earlier mails; they lead to the console.
 */
export async function pagesForPeople(app: FastifyInstance, deps: ApiDependencies): Promise<void> {
  app.setErrorHandler((error, request, reply) => sendProblemPage(reply, reportFailure(error, request, reply)));
  app.get(stylePath, { config: { access: anyone({ requestsPerMinute: 120 }) }, schema: { hide: true } }, (_, reply) =>
    reply.type('text/css; charset=utf-8').header('cache-control', 'max-age=3600').send(style),
  );
  serveFirstPage(app, deps);
  serveAddCard(app as unknown as Api, deps);
  for (const page of accountPages) redirectToConsole(app as unknown as Api, deps, page);
}

/** Keeps the token of a link, and nothing else that the address may contain. */
function redirectToConsole(api: Api, { settings }: ApiDependencies, page: AccountPage): void {
  api.route({
    method: 'GET',
    url: `/account/${page}`,
    config: { access: anyone({ requestsPerMinute: 60 }) },
    schema: { hide: true, querystring: z.object({ token: optionalQuery(z.string().max(4096)) }) },
    handler: async ({ query: { token } }, reply) => {
      const url = accountPageUrl(settings, page, token === undefined ? {} : { token });
      return reply.header('referrer-policy', 'no-referrer').redirect(url);
    },
  });
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
