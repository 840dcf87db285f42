import { execFile, execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import fs from 'node:fs';
import http from 'node:http';
import https from 'node:https';
import type { AddressInfo } from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { temporalServerMark, versions } from '../../ops/setup/toolchain/locations.mjs';
import { TestCa } from '../support/test-ca.ts';

/** How set-up gets Temporal: a download from a mirror of the test, or a build with a Go of the test. */
const root = path.resolve(import.meta.dirname, '../..');
const setupFile = (name: string) => JSON.stringify(path.join(root, 'ops/setup', name));
let dir: string;
let mirror: http.Server;
let archive: Buffer;
/** Answers a request. Undefined: the archive. */
let answer: ((response: http.ServerResponse) => void) | undefined;
let asked: string[];

beforeEach(async () => {
  dir = fs.mkdtempSync(path.join(os.tmpdir(), 'temporal-setup-test-'));
  fs.writeFileSync(path.join(dir, 'temporal'), '#!/bin/sh\necho downloaded\n', { mode: 0o755 });
  fs.writeFileSync(path.join(dir, 'LICENSE'), '');
  execFileSync('tar', ['-czf', path.join(dir, 'archive.tar.gz'), '-C', dir, 'LICENSE', 'temporal']);
  archive = fs.readFileSync(path.join(dir, 'archive.tar.gz'));
  asked = [];
  answer = undefined;
  mirror = http.createServer((request, response) => {
    asked.push(request.url!);
    if (answer) answer(response);
    else response.end(archive);
  });
  mirror.listen(0, '127.0.0.1');
  await once(mirror, 'listening');
});

afterEach(() => {
  mirror.closeAllConnections();
  mirror.close();
  fs.rmSync(dir, { recursive: true, force: true });
});

const mirrorUrl = () => `http://127.0.0.1:${(mirror.address() as AddressInfo).port}`;
const checksum = () => createHash('sha256').update(archive).digest('hex');
const toolchain = () => fs.readdirSync(path.join(dir, 'cache/toolchain')).filter((name) => !name.endsWith('.lock'));

/** Runs the source of a module in a separate process, as set-up does. */
function runModule(source: string, env: NodeJS.ProcessEnv = {}): Promise<string> {
  return new Promise((resolve) => {
    const settings = {
      ...process.env,
      NODE_OPTIONS: '',
      PLATFORM_CACHE_DIR: path.join(dir, 'cache'),
      PLATFORM_DATA_DIR: path.join(dir, 'data'),
      PLATFORM_TEMPORAL_DOWNLOAD: mirrorUrl(),
      ...env,
    };
    // Set-up also finds Go there, without a PATH.
    const hidden = '[ ! -d /usr/local/go ] || mount -t tmpfs none /usr/local/go; exec "$@"';
    const inside = ['--mount', '--propagation', 'private', 'sh', '-ec', hidden, 'sh', process.execPath];
    const words = [...inside, '--input-type=module', '--eval', source];
    execFile('unshare', words, { env: settings }, (_error, stdout, stderr) => resolve(stdout + stderr));
  });
}

const download = (env?: NodeJS.ProcessEnv) =>
  runModule(
    `const { downloadDevServer } = await import(${setupFile('temporal-dev-server.mjs')});
     const { temporalDevServer } = await import(${setupFile('toolchain/locations.mjs')});
     await downloadDevServer(${JSON.stringify(root)}, '${checksum()}')
       .then(() => console.log(temporalDevServer().cli), (error) => console.log(error.name, error.message));`,
    env,
  );

/** The step of set-up, with what `bin` has instead of this machine's Go. */
const runStep = (env: NodeJS.ProcessEnv, options: object = {}) =>
  runModule(
    `const { temporal } = await import(${setupFile('temporal-programs.mjs')});
     const { removeGoCaches } = await import(${setupFile('go-programs.mjs')});
     const { runMissing } = await import(${setupFile('progress.mjs')});
     await runMissing([temporal(${JSON.stringify(root)}, ${JSON.stringify(options)})]).catch((error) => console.log(error.name, error.message));
     await removeGoCaches();`,
    env,
  );

/** A Go that notes its words and caches, and "builds" empty programs. */
function makeGo(): NodeJS.ProcessEnv {
  const bin = path.join(dir, 'bin');
  fs.mkdirSync(bin);
  const script = `#!/bin/sh
echo "$@" >> ${dir}/go.log
case $1 in
  version) echo go version go1.99.0 linux/amd64;;
  build) echo "$GOMODCACHE $GOCACHE" >> ${dir}/caches.log; : > "$GOMODCACHE/a-module"; chmod 500 "$GOMODCACHE"
    while [ "$1" != -o ]; do shift; done; : > "$2";;
esac
`;
  fs.writeFileSync(path.join(bin, 'go'), script, { mode: 0o755 });
  return { PATH: `${bin}:${process.env.PATH}` };
}

/** A PATH with the programs of set-up and without Go. */
function withoutGo(): NodeJS.ProcessEnv {
  const bin = path.join(dir, 'few');
  fs.mkdirSync(bin);
  for (const name of ['flock', 'sh', 'cat', 'tar', 'gzip', 'mount', 'unshare'])
    fs.symlinkSync(`/usr/bin/${name}`, path.join(bin, name));
  return { PATH: bin };
}

const builtFolder = () => expect.stringMatching(/^temporal-server-/);

test('the archive of the pinned version is downloaded, compared with its checksum, unpacked and kept', async () => {
  const program = (await download()).trim().split('\n').at(-1)!;
  expect(execFileSync(program, { encoding: 'utf8' })).toBe('downloaded\n');
  const { cli } = versions.temporal;
  expect(asked).toEqual([expect.stringMatching(`^/v${cli}/temporal_cli_${cli}_linux_(amd64|arm64)\\.tar\\.gz$`)]);
  expect(toolchain()).toEqual([path.basename(path.dirname(program))]);
});

test('the pinned checksums are those of both processor architectures', () => {
  expect(Object.keys(versions.temporal.cliSha256)).toEqual(['amd64', 'arm64']);
  for (const sum of Object.values(versions.temporal.cliSha256)) expect(sum).toMatch(/^[0-9a-f]{64}$/);
});

test.each<[string, (response: http.ServerResponse) => void, RegExp]>([
  ['another content', (response) => response.end('#!/bin/sh\n'), /its SHA-256 is [0-9a-f]{64} and not [0-9a-f]{64}\n$/],
  [
    'more bytes than an archive can have',
    (response) => {
      const block = Buffer.alloc(1024 * 1024);
      const more = () => {
        while (!response.destroyed && response.write(block));
        if (!response.destroyed) response.once('drain', more);
      };
      more();
    },
    /it is larger than \d+ bytes\n$/,
  ],
  ['an error', (response) => response.writeHead(503).end(), /it answers 503\n$/],
  ['the end of the connection', (response) => response.destroy(), /SetupError .*\n$/s],
])('a mirror that sends %s leaves nothing, and the reason is the last line', async (_what, reply, reason) => {
  answer = reply;
  expect(await download()).toMatch(reason);
  expect(toolchain()).toEqual([]);
});

test('a mirror whose CA only the machine trusts is used, and one that the machine does not trust is refused', async () => {
  const ca = await TestCa.create();
  const { certificate, key } = await ca.issue({ name: 'mirror', answersFor: [{ type: 'ip', value: '127.0.0.1' }] });
  const secure = https.createServer({ cert: certificate, key }, (_request, response) => response.end(archive));
  secure.listen(0, '127.0.0.1');
  await once(secure, 'listening');
  const store = path.join(dir, 'store.pem');
  fs.writeFileSync(store, ca.pair.certificate);
  const env = {
    PLATFORM_TEMPORAL_DOWNLOAD: `https://127.0.0.1:${(secure.address() as AddressInfo).port}`,
    ...{ NODE_EXTRA_CA_CERTS: '', SSL_CERT_DIR: '', SSL_CERT_FILE: '' },
  };
  try {
    expect(await download(env)).toMatch(/SetupError .*certificate/s);
    expect(toolchain()).toEqual([]);
    expect(await download({ ...env, SSL_CERT_FILE: store })).not.toMatch(/SetupError/);
    expect(toolchain()).toEqual([expect.stringMatching(/^temporal-cli-/)]);
  } finally {
    secure.closeAllConnections();
    secure.close();
  }
});

test('without the download and without Go, set-up prints the reason and the remedies', async () => {
  const output = await runStep({ ...withoutGo(), PLATFORM_TEMPORAL_DOWNLOAD: 'http://nowhere.invalid' });
  expect(output).toMatch(
    /^SetupError Temporal could not be downloaded\. http:\/\/nowhere\.invalid\/v\S+: .*nowhere\.invalid\nInstall Go \d\.\d+ or newer/m,
  );
  expect(output).not.toContain('node:internal');
  expect(toolchain()).toEqual([]);
});

test('without the download, it is built with Go, whose caches are removed', async () => {
  answer = (response) => response.writeHead(404).end();
  const output = await runStep(makeGo());
  expect(output).toMatch(/Temporal: it could not be downloaded\. .*it answers 404\n {2}Temporal: building it instead/);
  expect(toolchain()).toEqual([builtFolder()]);
  const [caches] = fs.readFileSync(path.join(dir, 'caches.log'), 'utf8').split('\n');
  for (const folder of caches!.split(' ')) {
    expect(folder.startsWith(path.join(dir, 'cache/go/build-'))).toBe(true);
    expect(fs.existsSync(folder)).toBe(false);
  }
  expect(fs.readdirSync(path.join(dir, 'cache/go'))).toEqual([]);
});

test('a later set-up removes the caches of one that was killed, and not those of one that runs', async () => {
  const go = path.join(dir, 'cache/go');
  for (const name of ['build-killed', 'build-running']) {
    fs.mkdirSync(path.join(go, name), { recursive: true });
    fs.writeFileSync(path.join(go, name, 'lock'), '');
  }
  const { lockFile } = await import('../../ops/setup/file-lock.mjs');
  const lock = await lockFile(path.join(go, 'build-running', 'lock'), { wait: false });
  try {
    await runStep({ ...makeGo(), PLATFORM_TEMPORAL_BUILD: '1' });
    expect(fs.readdirSync(go)).toEqual(['build-running']);
  } finally {
    await lock.release();
  }
});

test('it is built at once for tests, with the setting, and for a data folder of the built server', async () => {
  const go = makeGo();
  await runStep(go, { needsServer: true });
  expect(toolchain()).toEqual([builtFolder()]);
  fs.rmSync(path.join(dir, 'cache'), { recursive: true });
  await runStep({ ...go, PLATFORM_TEMPORAL_BUILD: '1' });
  expect(toolchain()).toEqual([builtFolder()]);
  fs.rmSync(path.join(dir, 'cache'), { recursive: true });
  const mark = temporalServerMark(path.join(dir, 'data'));
  fs.mkdirSync(path.dirname(mark), { recursive: true });
  fs.writeFileSync(mark, '');
  await runStep(go);
  expect(toolchain()).toEqual([builtFolder()]);
  expect(asked).toEqual([]);
});
