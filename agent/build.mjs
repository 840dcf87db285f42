import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { build } from 'esbuild';
import { buildKernelScripts } from './contexts/build.mjs';

/**
 * Builds the agent into one folder, which may then be moved: `agent.cjs` (which node runs), two bundles with their
 * compiled code (`core`, `sandbox`), `native/` and `contexts/`. `--node` is the binary that will run it, because only
 * the same version with the same V8 flags can read a code cache. Other versions compile again, which takes some 30 ms.
 */
const here = import.meta.dirname;
const { values } = parseArgs({
  options: {
    node: { type: 'string', default: process.execPath },
    out: { type: 'string', default: path.join(here, 'dist') },
  },
});
const finished = path.resolve(values.out);
/** The folder is built under another name and then renamed, so that readers never see a part of it. */
const out = `${finished}.draft`;

/**
 * Built-in modules that `/health` does not need. Each import of one becomes an object that loads the module when its
 * properties are first read.
 */
const loadedLate = ['child_process', 'crypto', 'fs/promises', 'http2', 'os', 'tty', 'zlib'];
const lateBuiltins = {
  name: 'late-builtins',
  setup(builder) {
    const filter = new RegExp(`^(node:)?(${loadedLate.join('|')})$`);
    builder.onResolve({ filter }, ({ path: name }) => ({ path: name.replace(/^node:/, ''), namespace: 'late' }));
    builder.onLoad({ filter: /.*/, namespace: 'late' }, ({ path: name }) => {
      const load = `let loaded; const load = () => (loaded ??= process.getBuiltinModule('node:${name}'));`;
      const names = Object.keys(process.getBuiltinModule(`node:${name}`));
      const getters = names.map((key) => `get ${key}() { return load().${key}; }`);
      return { contents: `${load} module.exports = { ${getters.join(', ')} };`, loader: 'js' };
    });
  },
};

/** Leaves the core's one dynamic import to the loader in start.cjs. */
const sandboxApart = {
  name: 'sandbox-apart',
  setup(builder) {
    builder.onResolve({ filter: /\/sandbox-paths\.ts$/ }, ({ kind }) =>
      kind === 'dynamic-import' ? { path: './sandbox.js', external: true } : undefined,
    );
  },
};

fs.rmSync(out, { recursive: true, force: true });
fs.mkdirSync(out, { recursive: true });
await build({
  // `/health` only needs the core. The core loads the rest as soon as it listens.
  entryPoints: {
    core: path.join(here, 'main.ts'),
    sandbox: path.join(here, 'http/sandbox-paths.ts'),
  },
  outdir: out,
  bundle: true,
  platform: 'node',
  format: 'cjs',
  target: 'node24',
  minify: true,
  charset: 'ascii',
  supported: { 'dynamic-import': false },
  legalComments: 'none',
  logLevel: 'warning',
  plugins: [lateBuiltins, sandboxApart],
  banner: { js: '(function (require, module, exports) {' },
  footer: { js: '})' },
});
fs.copyFileSync(path.join(here, 'start.cjs'), path.join(out, 'agent.cjs'));
// For mounts of object storage with an s3fs in the sandbox: the program that libfuse runs to get the mount, and an
// empty folder.
fs.mkdirSync(path.join(out, 'fuse', 'bucket'), { recursive: true });
await build({
  entryPoints: [path.join(here, 'fuse/fusermount.ts')],
  outfile: path.join(out, 'fuse', 'fusermount'),
  bundle: true,
  platform: 'node',
  format: 'cjs',
  target: 'node24',
  banner: { js: '#!/.platform/bin/node' },
  logLevel: 'warning',
});
fs.chmodSync(path.join(out, 'fuse', 'fusermount'), 0o755);
// libfuse 3 uses this name.
fs.copyFileSync(path.join(out, 'fuse', 'fusermount'), path.join(out, 'fuse', 'fusermount3'));
// The bundle looks for this folder beside itself.
fs.mkdirSync(path.join(out, 'native'));
fs.copyFileSync(koffiAddon(), path.join(out, 'native', 'koffi.node'));
await buildKernelScripts(path.join(out, 'contexts', 'kernels'));
try {
  execFileSync(process.execPath, [path.join(here, 'code-cache.mjs'), out, values.node], { stdio: 'inherit' });
} catch (error) {
  fs.rmSync(out, { recursive: true });
  throw error;
}
fs.rmSync(finished, { recursive: true, force: true });
fs.renameSync(out, finished);

/** koffi's prebuilt addon for this processor, in the glibc variant that Node's own binaries use. */
function koffiAddon() {
  const require = createRequire(import.meta.url);
  const folder = path.dirname(require.resolve(`@koromix/koffi-linux-${process.arch}`));
  return path.join(folder, `linux_${process.arch}`, 'koffi.node');
}
