import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { build } from 'esbuild';
import { zipSync } from 'fflate';
import { parse } from 'smol-toml';

/**
 * Makes the packages of the clients, as registries and the running platform offer them, with their checksums. The same
 * sources give the same bytes. The wheel is made here, so that no machine needs Python for it.
 */
const here = import.meta.dirname;
const root = path.join(here, '..');
const { values } = parseArgs({ options: { out: { type: 'string', default: path.join(here, 'dist') } } });
const finished = path.resolve(values.out);
/** The folder is built under another name and then renamed, so that readers see only complete packages. */
const out = `${finished}.draft`;
const staging = path.join(out, 'staging');

fs.rmSync(out, { recursive: true, force: true });
await packTypescript();
await packMcp();
writeWheel();
fs.rmSync(staging, { recursive: true });
const sums = fs.readdirSync(out).map((name) => `${digest('hex', fs.readFileSync(path.join(out, name)))}  ${name}\n`);
fs.writeFileSync(path.join(out, 'SHA256SUMS'), sums.join(''));
fs.rmSync(finished, { recursive: true, force: true });
fs.renameSync(out, finished);

/** As an ES module and as CommonJS, because Node 20.12 cannot `require` an ES module. The command line is an ES module. */
async function packTypescript() {
  const folder = stage('typescript');
  const dist = path.join(folder, 'dist');
  const project = path.join(here, 'typescript');
  compile('--project', project, '--outDir', dist);
  const commonJs = {
    extends: path.join(project, 'tsconfig.json'),
    include: [],
    files: [path.join(project, 'src/index.ts')],
  };
  const compilerOptions = { module: 'commonjs', moduleResolution: 'bundler', verbatimModuleSyntax: false };
  const config = path.join(staging, 'commonjs.json');
  const more = { rootDir: path.join(project, 'src'), outDir: path.join(dist, 'cjs') };
  const typeRoots = [path.join(root, 'node_modules/@types')];
  fs.writeFileSync(
    config,
    JSON.stringify({ ...commonJs, compilerOptions: { ...compilerOptions, ...more, typeRoots } }),
  );
  compile('--project', config);
  fs.writeFileSync(path.join(dist, 'cjs/package.json'), '{ "type": "commonjs" }\n');
  await bundleTar(path.join(dist, 'cjs/tar.js'), { format: 'cjs' });
  // Some bundled packages are CommonJS.
  const banner = {
    js: "import { createRequire } from 'node:module';\nconst require = createRequire(import.meta.url);",
  };
  const inputs = await bundleTar(path.join(dist, 'tar.js'), { format: 'esm', banner });
  const found = inputs.flatMap((input) => /node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(input)?.[1] ?? []);
  const licences = [...new Set(found)].sort().map((name) => {
    const text = fs.readFileSync(path.join(root, 'node_modules', name, 'LICENSE'), 'utf8');
    return `${name}\n\n${text.trim()}\n`;
  });
  fs.writeFileSync(path.join(dist, 'LICENCES.txt'), licences.join('\n----\n\n'));
  pack(folder);
}

/** Puts the tar library into a compiled file, so that the client has no dependencies. Returns the bundled files. */
async function bundleTar(file, options) {
  const { metafile } = await build({
    absWorkingDir: root,
    entryPoints: [file],
    outfile: file,
    allowOverwrite: true,
    bundle: true,
    platform: 'node',
    target: 'node20.12',
    nodePaths: [path.join(root, 'node_modules')],
    minify: true,
    legalComments: 'none',
    metafile: true,
    logLevel: 'warning',
    ...options,
  });
  return Object.keys(metafile.inputs);
}

/** One file with all that it needs. */
async function packMcp() {
  const folder = stage('mcp');
  await build({
    // Comments in the bundle name files from here.
    absWorkingDir: root,
    entryPoints: [path.join(here, 'mcp/src/main.ts')],
    outfile: path.join(folder, 'dist/main.js'),
    bundle: true,
    platform: 'node',
    format: 'esm',
    target: 'node20',
    // Some bundled packages are CommonJS.
    banner: { js: "import { createRequire } from 'node:module'; const require = createRequire(import.meta.url);" },
    logLevel: 'warning',
  });
  pack(folder);
}

/** Copies the files of a package that need no build. */
function stage(name) {
  const folder = path.join(staging, name);
  fs.mkdirSync(folder, { recursive: true });
  const manifest = JSON.parse(fs.readFileSync(path.join(here, name, 'package.json'), 'utf8'));
  const { GITHUB_SERVER_URL: server, GITHUB_REPOSITORY: repository } = process.env;
  // npm compares it with the repository whose workflow publishes the package.
  if (server && repository) manifest.repository = { type: 'git', url: `git+${server}/${repository}.git` };
  fs.writeFileSync(path.join(folder, 'package.json'), `${JSON.stringify(manifest, null, 2)}\n`);
  fs.copyFileSync(path.join(here, name, 'README.md'), path.join(folder, 'README.md'));
  fs.copyFileSync(path.join(root, 'LICENSE'), path.join(folder, 'LICENSE'));
  return folder;
}

function compile(...args) {
  execFileSync(path.join(root, 'node_modules/.bin/tsc'), args, { cwd: root, stdio: 'inherit' });
}

/** npm gives every file the same time, owner and mode. */
function pack(folder) {
  const args = ['pack', '--ignore-scripts', '--silent', '--pack-destination', out];
  execFileSync('npm', args, { cwd: folder, stdio: ['ignore', 'ignore', 'inherit'] });
}

/** The layout of a wheel: https://packaging.python.org/en/latest/specifications/binary-distribution-format/ */
function writeWheel() {
  const source = path.join(here, 'python');
  const { project } = parse(fs.readFileSync(path.join(source, 'pyproject.toml'), 'utf8'));
  const name = `${project.name.replaceAll('-', '_')}-${project.version}`;
  const info = `${name}.dist-info`;
  const modules = path.join(source, 'src');
  const files = new Map();
  for (const entry of fs.readdirSync(modules, { recursive: true }).sort()) {
    if (/\.py$|\/py\.typed$/.test(entry)) files.set(entry, fs.readFileSync(path.join(modules, entry)));
  }
  files.set(`${info}/licenses/LICENSE`, fs.readFileSync(path.join(root, 'LICENSE')));
  const metadata = [
    'Metadata-Version: 2.4',
    `Name: ${project.name}`,
    `Version: ${project.version}`,
    `Summary: ${project.description}`,
    `License-Expression: ${project.license}`,
    'License-File: LICENSE',
    `Requires-Python: ${project['requires-python']}`,
    ...project.dependencies.map((dependency) => `Requires-Dist: ${dependency}`),
    ...Object.entries(project['optional-dependencies']).flatMap(([extra, dependencies]) => [
      `Provides-Extra: ${extra}`,
      ...dependencies.map((dependency) => `Requires-Dist: ${dependency}; extra == "${extra}"`),
    ]),
    'Description-Content-Type: text/markdown',
  ];
  const readme = fs.readFileSync(path.join(source, project.readme), 'utf8');
  files.set(`${info}/METADATA`, Buffer.from(`${metadata.join('\n')}\n\n${readme}`));
  const wheel = ['Wheel-Version: 1.0', 'Generator: sandbox-platform', 'Root-Is-Purelib: true', 'Tag: py3-none-any'];
  files.set(`${info}/WHEEL`, Buffer.from(`${wheel.join('\n')}\n`));
  const record = [...files].map(([file, bytes]) => `${file},sha256=${digest('base64url', bytes)},${bytes.length}\n`);
  files.set(`${info}/RECORD`, Buffer.from(`${record.join('')}${info}/RECORD,,\n`));
  const entry = { os: 3, attrs: 0o100644 << 16, mtime: new Date(1980, 0, 1) };
  const zipped = zipSync(Object.fromEntries([...files].map(([file, bytes]) => [file, [bytes, entry]])), { level: 9 });
  fs.writeFileSync(path.join(out, `${name}-py3-none-any.whl`), zipped);
}

function digest(encoding, bytes) {
  return createHash('sha256').update(bytes).digest(encoding);
}
