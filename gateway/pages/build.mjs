import fs from 'node:fs';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { build } from 'esbuild';

/** Bundles the web pages into one folder for `page-assets.ts`: one script and one style sheet per page. */
const here = import.meta.dirname;
const { values } = parseArgs({ options: { out: { type: 'string', default: path.join(here, 'dist') } } });
const finished = path.resolve(values.out);
/** The folder is built under another name and then renamed, so that readers see only complete pages. */
const out = `${finished}.draft`;

fs.rmSync(out, { recursive: true, force: true });
await build({
  entryPoints: {
    terminal: path.join(here, 'web/terminal/main.ts'),
    files: path.join(here, 'web/files/main.ts'),
  },
  outdir: out,
  entryNames: '[name]-[hash]',
  bundle: true,
  platform: 'browser',
  format: 'esm',
  target: 'es2022',
  minify: true,
  charset: 'utf8',
  legalComments: 'eof',
  logLevel: 'warning',
});
fs.rmSync(finished, { recursive: true, force: true });
fs.renameSync(out, finished);
