import fs from 'node:fs/promises';
import path from 'node:path';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import fp from 'fastify-plugin';
import { chooseEncoding } from '../../domain/content-encoding.ts';
import { AppError } from '../../domain/errors.ts';
import { apiUrl } from '../../platform/config/public-urls.ts';
import type { Settings } from '../../platform/config/settings.ts';
import { anyone } from '../access.ts';

const dist = path.resolve(import.meta.dirname, '../../console/dist');

/**
 * Scripts, styles and requests of this origin only. Charts and the terminal set styles of single elements, which needs
 * `style-src-attr`.
 */
const policy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "style-src-attr 'unsafe-inline'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "form-action 'self'",
  "base-uri 'self'",
  "frame-ancestors 'none'",
].join('; ');

const headers = {
  'content-security-policy': policy,
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
  'referrer-policy': 'no-referrer',
};

const types: Readonly<Record<string, string>> = {
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
  '.woff2': 'font/woff2',
};

/** `/` and `/console`: the files that `console/build.mjs` has built. Every address of a page gets the same document. */
export const consolePages = fp<{ settings: Settings }>(
  async (app: FastifyInstance, { settings }) => {
    const page = { config: { access: anyone({ requestsPerMinute: 600 }) }, schema: { hide: true } };
    // Behind one address there can be an office, where after an upgrade each browser loads two dozen files.
    const file = { config: { access: anyone({ requestsPerMinute: 6000 }) }, schema: { hide: true } };
    const base = `${new URL(apiUrl(settings)).pathname.replace(/\/$/, '')}/console/`;
    const sendDocument = async (request: FastifyRequest, reply: FastifyReply) => {
      if (request.url.startsWith('/console/assets/')) throw new AppError('not_found', 'No such file');
      const document = (await readFile('index.html'))
        .toString()
        .replace('<base href="/console/"', `<base href="${base}"`);
      return reply
        .headers({ ...headers, 'cache-control': 'no-cache' })
        .type('text/html; charset=utf-8')
        .send(document);
    };
    app.get('/', page, (_request, reply) => reply.redirect(base));
    for (const url of ['/console', '/console/*']) app.get(url, page, sendDocument);
    app.get('/console/icon.svg', page, async (_request, reply) =>
      reply
        .headers({ ...headers, 'cache-control': 'max-age=3600' })
        .type(types['.svg']!)
        .send(await readFile('icon.svg')),
    );
    app.get<{ Params: { name: string } }>('/console/assets/:name', file, async (request, reply) => {
      const { name } = request.params;
      const type = types[path.extname(name)];
      if (!type || !/^[\w.-]+$/.test(name)) throw new AppError('not_found', 'No such file');
      const encoding = chooseEncoding(String(request.headers['accept-encoding'] ?? ''));
      const extension = encoding === 'br' ? '.br' : encoding === 'gzip' ? '.gz' : '';
      if (encoding) reply.header('content-encoding', encoding);
      // The name contains a hash of the content.
      const cached = { vary: 'Accept-Encoding', 'cache-control': 'public, max-age=31536000, immutable' };
      return reply
        .headers({ ...headers, ...cached })
        .type(type)
        .send(await readFile(`assets/${name}${extension}`));
    });
  },
  { name: 'console', dependencies: ['authentication'] },
);

/** @throws {AppError} `not_found` when the console is not built, or is of another version */
async function readFile(name: string): Promise<Buffer> {
  try {
    return await fs.readFile(path.join(dist, name));
  } catch (cause) {
    throw new AppError('not_found', 'No such file of the console', { cause });
  }
}
