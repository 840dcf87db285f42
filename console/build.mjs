import fs from 'node:fs';
import path from 'node:path';
import { brotliCompressSync, gzipSync } from 'node:zlib';
import { build } from 'vite';

/** Builds the console into `dist`, with the compressed form of each file. Readers only see a complete folder. */
const here = import.meta.dirname;
const finished = path.join(here, 'dist');
const out = `${finished}.draft`;

await build({ root: here, logLevel: 'warn', build: { outDir: out, emptyOutDir: true } });
for (const name of fs.readdirSync(path.join(out, 'assets'))) {
  const file = path.join(out, 'assets', name);
  const bytes = fs.readFileSync(file);
  fs.writeFileSync(`${file}.br`, brotliCompressSync(bytes));
  fs.writeFileSync(`${file}.gz`, gzipSync(bytes, { level: 9 }));
}
fs.rmSync(finished, { recursive: true, force: true });
fs.renameSync(out, finished);
