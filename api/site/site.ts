import { createHash } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { brotliCompressSync, constants, gzipSync } from 'node:zlib';
import { guideImages, guidePages } from './guide.ts';
import { layout, type Navigation, stylePath } from './layout.ts';
import { referencePages } from './reference.ts';
import type { Part } from './schema-fields.ts';
import { indexOf } from './search.ts';

/** A file of the documentation in the forms in which it is sent. */
export interface SiteFile {
  type: string;
  etag: string;
  identity: Uint8Array;
  /** Null: its format is compressed already. */
  compressed: { br: Uint8Array; gzip: Uint8Array } | null;
}

/** The documentation: the guide, the reference and the OpenAPI documents. */
export interface Site {
  /** Files by address. */
  files: ReadonlyMap<string, SiteFile>;
  navigation: Navigation;
  /** The index of `DocumentationSearch`. */
  searchIndex: string;
}

const types: Readonly<Record<string, string>> = { '.png': 'image/png', '.webp': 'image/webp', '.svg': 'image/svg+xml' };

/** Renders everything and compresses it, so that a request costs no work. Takes a second. */
export function makeSite({ api, agent }: { api: Part; agent: Part }): Site {
  const guide = guidePages();
  const apiPages = referencePages(api, { path: '/docs', title: 'Reference of the API' });
  const agentPages = referencePages(agent, { path: '/docs/agent', title: 'Reference of the agent' });
  const pages = [...guide, ...apiPages, ...agentPages];
  const navigation = [
    { title: 'Guide', links: guide },
    { title: 'API', links: apiPages },
    { title: 'Agent in a sandbox', links: agentPages },
  ].map(({ title, links }) => ({ title, links: links.map((page) => ({ path: page.path, title: page.title })) }));
  const texts: [address: string, type: string, text: string][] = [
    ['/openapi.json', 'application/json', JSON.stringify(api)],
    ['/agent-openapi.json', 'application/json', JSON.stringify(agent)],
    [stylePath, 'text/css', fs.readFileSync(path.join(import.meta.dirname, 'style.css'), 'utf8')],
    ...pages.map((page): [string, string, string] => [page.path, 'text/html', layout(page, navigation)]),
  ];
  const files = new Map(
    texts.map(([address, type, text]) => [address, siteFile(`${type}; charset=utf-8`, Buffer.from(text), true)]),
  );
  for (const { path: address, file } of guideImages()) {
    const type = types[path.extname(file)]!;
    files.set(address, siteFile(type, fs.readFileSync(file), type === 'image/svg+xml'));
  }
  return { files, navigation, searchIndex: indexOf(pages) };
}

function siteFile(type: string, identity: Buffer, isCompressible: boolean): SiteFile {
  const etag = createHash('sha256').update(identity).digest('base64url').slice(0, 22);
  if (!isCompressible) return { type, etag, identity, compressed: null };
  // The best quality takes seconds for the OpenAPI document and saves a tenth.
  const br = brotliCompressSync(identity, { params: { [constants.BROTLI_PARAM_QUALITY]: 9 } });
  return { type, etag, identity, compressed: { br, gzip: gzipSync(identity, { level: 9 }) } };
}
