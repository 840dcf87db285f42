import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { build } from 'esbuild';

/**
 * Builds the agent into one folder: `agent.cjs`, `agent.blob` (its startup snapshot), `native/`, `flags.json`.
 * `--node` names the very binary that will run it: a snapshot opens only in the binary that made it.
 */
const here = import.meta.dirname;
const { values } = parseArgs({
  options: {
    node: { type: 'string', default: process.execPath },
    out: { type: 'string', default: path.join(here, 'dist') },
  },
});
const out = path.resolve(values.out);
/** What a host passes to node before `--snapshot-blob`. */
const flags = [];

/**
 * Built-in modules that cannot be part of a snapshot (they hold handles): each import of one becomes an object whose
 * properties load it when they are first read, which is after the snapshot has been opened.
 */
const loadedLate = ['http', 'http2', 'child_process', 'net', 'tty', 'zlib', 'worker_threads', 'fs/promises'];
const lateBuiltins = {
  name: 'late-builtins',
  setup(builder) {
    const filter = new RegExp(`^(node:)?(${loadedLate.join('|')})$`);
    builder.onResolve({ filter }, ({ path: name }) => ({ path: name.replace(/^node:/, ''), namespace: 'late' }));
    builder.onLoad({ filter: /.*/, namespace: 'late' }, ({ path: name }) => {
      const getters = Object.keys(process.getBuiltinModule(name)).map(
        (key) => `get ${key}() { return load().${key}; }`,
      );
      const load = `let loaded; const load = () => (loaded ??= process.getBuiltinModule('${name}'));`;
      return { contents: `${load} module.exports = { ${getters.join(', ')} };`, loader: 'js' };
    });
  },
};

fs.mkdirSync(path.join(out, 'native'), { recursive: true });
await build({
  entryPoints: [path.join(here, 'main.ts')],
  outfile: path.join(out, 'agent.cjs'),
  bundle: true,
  platform: 'node',
  format: 'cjs',
  target: 'node24',
  legalComments: 'none',
  logLevel: 'warning',
  plugins: [lateBuiltins],
});
execFileSync(
  values.node,
  ['--snapshot-blob', path.join(out, 'agent.blob'), '--build-snapshot', path.join(out, 'agent.cjs')],
  {
    stdio: 'inherit',
  },
);
fs.writeFileSync(path.join(out, 'flags.json'), `${JSON.stringify(flags)}\n`);
