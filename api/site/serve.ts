import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import fp from 'fastify-plugin';
import { z } from 'zod';
import { chooseEncoding } from '../../domain/content-encoding.ts';
import { AppError } from '../../domain/errors.ts';
import type { Settings } from '../../platform/config/settings.ts';
import { anyone } from '../access.ts';
import { resultOfThread } from '../low-priority-thread.ts';
import { agentDocument } from '../openapi/agent/document.ts';
import { documentationPolicy, layout } from './layout.ts';
import { DocumentationSearch } from './search.ts';
import { makeSite, type Site, type SiteFile } from './site.ts';

const thread = new URL('./thread.ts', import.meta.url);
const access = anyone({ requestsPerMinute: 240 });
const headers = {
  'content-security-policy': documentationPolicy,
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  // The browser asks whether its copy is current: a new version of the platform has new pages.
  'cache-control': 'no-cache',
};

/**
 * The documentation: `/guide`, its search, `/docs`, and the OpenAPI documents of the API and of the agent. It is made
 * at the first request, and compressed once.
 */
export const documentation = fp<{ settings: Settings }>(
  async (app, { settings }) => {
    const closed = new AbortController();
    app.addHook('onClose', async () => closed.abort());
    // A process that listens makes it in a thread; one that does not, as in tests, has no other requests to serve.
    const make = async () => {
      if (!app.server.listening) return makeSiteOf(app, settings);
      try {
        return await resultOfThread<Site>(thread, settings, closed.signal);
      } catch (error) {
        if (!closed.signal.aborted) app.log.warn({ err: error }, 'the thread made no documentation');
        return makeSiteOf(app, settings);
      }
    };
    let made: Promise<{ site: Site; search: DocumentationSearch }> | null = null;
    const open = () => {
      made ??= make()
        .then(async (site) => ({ site, search: await DocumentationSearch.load(site.searchIndex) }))
        .catch((error) => {
          made = null;
          throw error;
        });
      return made;
    };

    const sendFile = async (request: FastifyRequest, reply: FastifyReply) => {
      const { site } = await open();
      const address = request.url.split('?', 1)[0]!.replace(/\/+$/, '');
      const file = site.files.get(address);
      if (!file) throw new AppError('not_found', 'No such page');
      return send(file, request, reply);
    };
    for (const url of ['/openapi.json', '/agent-openapi.json', '/docs', '/docs/*', '/guide', '/guide/*']) {
      app.get(url, { config: { access }, schema: { hide: true } }, sendFile);
    }

    const query = z.object({ q: z.string().max(100).default('') });
    app.get(
      '/guide/search',
      { config: { access }, schema: { hide: true, querystring: query } },
      async (request, reply) => {
        const { site, search } = await open();
        const { q } = request.query as z.infer<typeof query>;
        const page = layout(search.results(q), site.navigation, q);
        return reply.headers(headers).type('text/html; charset=utf-8').send(page);
      },
    );
  },
  { name: 'documentation', dependencies: ['openapi'] },
);

export function makeSiteOf(app: FastifyInstance, settings: Settings): Site {
  return makeSite({ api: app.swagger(), agent: agentDocument(settings.PLATFORM_BASE_DOMAIN) });
}

function send(file: SiteFile, { headers: asked }: FastifyRequest, reply: FastifyReply): FastifyReply {
  const encoding = file.compressed && chooseEncoding(String(asked['accept-encoding'] ?? ''));
  // Each encoding is a representation with its own tag.
  const etag = `"${file.etag}${encoding ? `-${encoding}` : ''}"`;
  reply.headers({ ...headers, vary: 'Accept-Encoding', etag });
  if (
    String(asked['if-none-match'] ?? '')
      .split(/\s*,\s*/)
      .includes(etag)
  )
    return reply.code(304).send();
  if (encoding) reply.header('content-encoding', encoding);
  const bytes = encoding ? file.compressed![encoding] : file.identity;
  return reply.type(file.type).send(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength));
}
