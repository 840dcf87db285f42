import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { NameServer } from '../support/name-server.ts';
import { RunningPlatform } from '../support/running-platform.ts';
import { npmPackages, pythonPackages, pythonWith } from './published-packages.ts';
import { e2bKey, expectSuccess, runProgram } from './run-program.ts';

/** E2B's packages with a domain and TLS: two variables, and the certificate authority of the platform. */
const domain = 'sandboxes.example';
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'e2b-tls-'));
const resolver = path.join(folder, 'resolv.conf');
let platform: RunningPlatform;
let names: NameServer;
const interpreters: string[] = [];

beforeAll(async () => {
  // Resolvers ask port 53 only.
  names = await NameServer.start('127.0.0.1', { host: '127.0.0.77', port: 53 });
  fs.writeFileSync(resolver, 'nameserver 127.0.0.77\n');
  platform = await RunningPlatform.onSharedServers({ PLATFORM_BASE_DOMAIN: domain });
  await platform.start();
  for (const each of Object.values(pythonPackages['code-interpreter'])) interpreters.push(await pythonWith(each));
}, 300_000);

afterAll(async () => {
  await platform.stop();
  const remains = await platform.hostRemains();
  platform.removeData();
  await names.stop();
  fs.rmSync(folder, { recursive: true });
  expect(remains).toEqual([]);
}, 120_000);

function settings(): NodeJS.ProcessEnv {
  const { PLATFORM_GATEWAY, PLATFORM_API_KEY, PLATFORM_CA } = platform.env;
  return {
    E2B_DOMAIN: `${domain}:${new URL(PLATFORM_GATEWAY).port}`,
    E2B_API_KEY: e2bKey(PLATFORM_API_KEY!),
    NODE_EXTRA_CA_CERTS: PLATFORM_CA!,
    SSL_CERT_FILE: PLATFORM_CA!,
  };
}

/** The program with the test's nameserver. */
const withNames = ['unshare', '--mount', 'sh', '-ec', 'mount --bind "$0" /etc/resolv.conf; exec "$@"', resolver];

async function expectToWork(words: string[], env: NodeJS.ProcessEnv = {}): Promise<void> {
  expectSuccess(words.join(' '), await runProgram([...withNames, ...words], { ...settings(), ...env }));
}

test('the npm packages reach API and sandboxes by name', async () => {
  const names = Object.values(npmPackages['code-interpreter']);
  await Promise.all(names.map((name) => expectToWork([process.execPath, 'by-names.ts'], { E2B_PACKAGE: name })));
}, 120_000);

test('@e2b/code-interpreter 2.6.1, which does not know E2B_SANDBOX_URL, runs code in contexts', async () => {
  await expectToWork([process.execPath, 'interpreter.ts'], { E2B_PACKAGE: npmPackages['code-interpreter']['2.6.1'] });
}, 120_000);

test('the Python packages reach API and sandboxes by name, with and without asyncio', async () => {
  for (const kind of ['sync', 'async']) {
    await Promise.all(interpreters.map((interpreter) => expectToWork([interpreter, 'by_names.py', kind])));
  }
}, 120_000);
