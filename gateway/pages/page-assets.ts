import fs from 'node:fs';
import path from 'node:path';
import type { PreparedEncoding } from '../../domain/content-encoding.ts';
import { type PageName, pageNames } from './agent-procedures.ts';

/** A file of a page. Its name contains a hash of its content. */
export interface PageAsset {
  name: string;
  type: string;
  bytes: Buffer;
  compressed: Readonly<Record<PreparedEncoding, Buffer>>;
}

/** The pages that `gateway/pages/build.mjs` has built. */
export interface PageAssets {
  /** The files that the document of each page loads. */
  readonly entries: Readonly<Record<PageName, { title: string; script: string; style: string }>>;
  readonly files: ReadonlyMap<string, PageAsset>;
}

const types: Readonly<Record<string, string>> = {
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
};
const titles: Readonly<Record<PageName, string>> = { terminal: 'Terminal', files: 'Files' };

/**
 * Reads the built pages into memory, about a megabyte.
 * @throws when they are not built
 */
export function loadPageAssets(folder = path.join(import.meta.dirname, 'dist')): PageAssets {
  if (!fs.existsSync(folder)) throw new Error(`no built web pages in ${folder}: run node gateway/pages/build.mjs`);
  const files = new Map<string, PageAsset>();
  for (const name of fs.readdirSync(folder)) {
    const type = types[path.extname(name)];
    if (!type) continue;
    const read = (extension: string) => fs.readFileSync(path.join(folder, `${name}${extension}`));
    files.set(name, { name, type, bytes: read(''), compressed: { br: read('.br'), gzip: read('.gz') } });
  }
  const findFile = (page: PageName, extension: string) => {
    const found = [...files.keys()].filter((name) => name.startsWith(`${page}-`) && name.endsWith(extension));
    if (found.length !== 1) throw new Error(`${folder} has ${found.length} files ${page}-*${extension} instead of one`);
    return found[0]!;
  };
  const entry = (page: PageName) => ({
    title: titles[page],
    script: findFile(page, '.js'),
    style: findFile(page, '.css'),
  });
  const entries = Object.fromEntries(pageNames.map((page) => [page, entry(page)])) as PageAssets['entries'];
  return { entries, files };
}
