import fs from 'node:fs';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { brotliCompressSync, gzipSync } from 'node:zlib';
import { build } from 'esbuild';

/**
 * Bundles the web pages into one folder for `page-assets.ts`: a script and a style sheet per page, what a page loads
 * later, and the compressed form of each file.
 */
const here = import.meta.dirname;
const { values } = parseArgs({ options: { out: { type: 'string', default: path.join(here, 'dist') } } });
const finished = path.resolve(values.out);
/** The folder is built under another name and then renamed, so that readers see only complete pages. */
const out = `${finished}.draft`;

fs.rmSync(out, { recursive: true, force: true });
const options = {
  outdir: out,
  entryNames: '[name]-[hash]',
  chunkNames: '[name]-[hash]',
  bundle: true,
  splitting: true,
  platform: 'browser',
  format: 'esm',
  target: 'es2022',
  minify: true,
  charset: 'utf8',
  legalComments: 'eof',
  logLevel: 'warning',
};
// Each page is built alone, so that they share no file, and only what a page imports later is a file of its own.
for (const page of ['terminal', 'files']) {
  await build({ ...options, entryPoints: { [page]: path.join(here, `web/${page}/main.ts`) } });
}
for (const name of fs.readdirSync(out)) {
  const bytes = fs.readFileSync(path.join(out, name));
  fs.writeFileSync(path.join(out, `${name}.br`), brotliCompressSync(bytes));
  fs.writeFileSync(path.join(out, `${name}.gz`), gzipSync(bytes, { level: 9 }));
}
fs.rmSync(finished, { recursive: true, force: true });
fs.renameSync(out, finished);
