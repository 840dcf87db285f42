import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import path from 'node:path';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import fp from 'fastify-plugin';
import { AppError, notFound } from '../../domain/errors.ts';
import { html } from '../../domain/html.ts';
import { apiUrl } from '../../platform/config/public-urls.ts';
import { releaseVersion } from '../../platform/config/release.ts';
import type { Settings } from '../../platform/config/settings.ts';
import { anyone } from '../access.ts';
import { sendPage } from '../pages/frame.ts';

/** What `clients/build.mjs` has made. */
const folder = path.join(import.meta.dirname, '../../clients/dist');

/** Names without a version, for npm. The name of a wheel must have its version. */
const newest: Readonly<Record<string, string>> = {
  'sandbox-platform-client.tgz': `sandbox-platform-client-${releaseVersion}.tgz`,
  'sandbox-platform-mcp.tgz': `sandbox-platform-mcp-${releaseVersion}.tgz`,
};

const types: Readonly<Record<string, string>> = {
  '.tgz': 'application/gzip',
  '.whl': 'application/zip',
};

interface Served {
  bytes: Buffer;
  sha256: string;
}

/**
 * `/clients/` and below: the packages of the clients, so that `npm install` and `pip install` of an address install the
 * release that runs here, and no package of somebody else in a public registry. The page lists them in a form that
 * `pip --find-links` reads.
 */
export const clientPackages = fp(
  async (app: FastifyInstance, { settings }: { settings: Settings }) => {
    let made: Promise<Map<string, Served>> | null = null;
    const read = () => {
      made ??= readPackages().catch((error) => {
        made = null;
        throw new AppError('temporarily_unavailable', 'The packages of the clients are not built here', {
          cause: error,
        });
      });
      return made;
    };
    const options = { config: { access: anyone({ requestsPerMinute: 120 }) }, schema: { hide: true } };
    app.get('/clients', options, async (_request, reply) => sendList(reply, await read(), apiUrl(settings)));
    app.get<{ Params: { file: string } }>('/clients/:file', options, async (request, reply) => {
      const { file } = request.params;
      const name = Object.hasOwn(newest, file) ? newest[file]! : file;
      const served = (await read()).get(name);
      if (!served) throw notFound('File');
      return send(request, reply, name, served);
    });
  },
  { name: 'client-packages' },
);

/** Read once: a platform serves the packages that it was started with. */
async function readPackages(): Promise<Map<string, Served>> {
  const names = (await readdir(folder)).filter((name) => /^[\w.-]+(\.tgz|\.whl)$|^SHA256SUMS$/.test(name));
  const read = names.sort().map(async (name) => {
    const bytes = await readFile(path.join(folder, name));
    return [name, { bytes, sha256: createHash('sha256').update(bytes).digest('hex') }] as const;
  });
  return new Map(await Promise.all(read));
}

function send(request: FastifyRequest, reply: FastifyReply, name: string, { bytes, sha256 }: Served): FastifyReply {
  const etag = `"${sha256}"`;
  // Checked each time, because an address without a version has other bytes after an upgrade.
  reply.headers({ etag, 'cache-control': 'no-cache', 'x-content-type-options': 'nosniff' });
  if (request.headers['if-none-match']?.split(',').some((given) => given.trim().replace(/^W\//, '') === etag)) {
    return reply.code(304).send();
  }
  return reply.type(types[path.extname(name)] ?? 'text/plain; charset=utf-8').send(bytes);
}

function sendList(reply: FastifyReply, files: ReadonlyMap<string, Served>, url: string): FastifyReply {
  const links = [...files].map(
    ([name, { sha256 }]) =>
      html`<li><a href="/clients/${name}${name.includes('.') ? `#sha256=${sha256}` : ''}">${name}</a></li>\n`,
  );
  const wheel = [...files.keys()].find((name) => name.endsWith('.whl')) ?? '';
  const content = html`<p>The packages of this platform's release.</p>
<ul>
${links}</ul>
<h2>TypeScript and command line</h2>
<pre>npm install ${url}/clients/sandbox-platform-client.tgz</pre>
<h2>Python</h2>
<pre>pip install ${url}/clients/${wheel}</pre>
<h2>MCP server</h2>
<pre>npm install ${url}/clients/sandbox-platform-mcp.tgz</pre>`;
  return sendPage(reply, 200, { title: 'Clients', content });
}
