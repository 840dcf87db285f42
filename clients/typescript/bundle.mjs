import fs from 'node:fs';
import path from 'node:path';
import { build } from 'esbuild';

/**
 * Puts the tar library into the compiled client, which then has no dependencies, with the licences of what it contains.
 * The argument is the folder with the compiled client.
 */
const out = path.resolve(process.argv[2] ?? path.join(import.meta.dirname, 'dist'));
const root = path.resolve(import.meta.dirname, '../..');
const file = path.join(out, 'tar.js');
const { metafile } = await build({
  entryPoints: [file],
  outfile: file,
  allowOverwrite: true,
  bundle: true,
  platform: 'node',
  format: 'esm',
  target: 'node20.12',
  // The client may be compiled into a folder without the libraries.
  nodePaths: [path.join(root, 'node_modules')],
  absWorkingDir: root,
  banner: { js: "import { createRequire } from 'node:module';\nconst require = createRequire(import.meta.url);" },
  minify: true,
  legalComments: 'none',
  metafile: true,
  logLevel: 'warning',
});
const packages = new Set(
  Object.keys(metafile.inputs).flatMap((input) => /node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(input)?.[1] ?? []),
);
const licences = [...packages].sort().map((name) => {
  const text = fs.readFileSync(path.join(root, 'node_modules', name, 'LICENSE'), 'utf8');
  return `${name}\n\n${text.trim()}\n`;
});
fs.writeFileSync(path.join(out, 'LICENCES.txt'), licences.join('\n----\n\n'));
