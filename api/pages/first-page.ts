import type { FastifyInstance } from 'fastify';
import { html } from '../../domain/html.ts';
import { accountPageUrl, apiUrl } from '../../platform/config/public-urls.ts';
import { anyone } from '../access.ts';
import type { ApiDependencies } from '../dependencies.ts';
import { sendPage } from './frame.ts';

/** `GET /`: introduces the platform, with links, to a person who opens the address of the API in a browser. */
export function serveFirstPage(app: FastifyInstance, { settings }: ApiDependencies): void {
  const url = apiUrl(settings);
  const temporal = settings.TEMPORAL_UI_URL;
  const content = html`<p>This is the API of a sandbox platform: isolated development sandboxes that programs create, use, pause and end.</p>
<ul>
<li><a href="/docs">Reference of the API</a> (<a href="/openapi.json">OpenAPI document</a>)</li>
${temporal ? html`<li><a href="${temporal}">Temporal Web UI</a>: every sandbox as a workflow, for operators</li>\n` : null}<li>Each sandbox has its own domain: <code>&lt;sandbox&gt;.${settings.PLATFORM_BASE_DOMAIN}</code></li>
<li><a href="/readyz">Is it ready?</a></li>
</ul>
<h2>A key</h2>
<p>Requests carry an API key in the header <code>X-API-Key</code>. <code>npm start</code> writes the first one to
<code>.data/platform.env</code>; <code>set -a; . .data/platform.env; set +a</code> exports it to a shell and its programs. Users <a href="${accountPageUrl(settings, 'sign-in')}">sign in</a> and make keys with
<code>POST /v1/api-keys</code>.</p>
<pre>curl -H "X-API-Key: $PLATFORM_API_KEY" ${url}/v1/users/me</pre>`;
  app.get('/', { config: { access: anyone({ requestsPerMinute: 120 }) }, schema: { hide: true } }, (_request, reply) =>
    sendPage(reply, 200, { title: 'Sandbox platform', content }),
  );
}
