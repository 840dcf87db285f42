import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { SandboxPlace, SandboxSpec } from '../../runtime/driver.ts';
import { forgetImage, LoopbackRegistry } from '../support/loopback-registry.ts';
import { pushImage } from '../support/pushed-image.ts';
import { createLayer, type TarEntry } from '../support/tar-layer.ts';
import { TestCa } from '../support/test-ca.ts';
import { until } from '../support/until.ts';
import { LocalHost, shell } from './local-host.ts';
import { OutsideNetwork } from './outside-network.ts';

/** The CA of the setting `PLATFORM_SANDBOX_CA_FILE`, with a server outside whose certificate it has signed. */
let folder: string;
let ca: TestCa;
let outside: OutsideNetwork;
let server: ChildProcess;
let registry: LoopbackRegistry;
let url: string;
const digests: string[] = [];

beforeAll(async () => {
  folder = mkdtempSync(path.join(os.tmpdir(), 'sandbox-ca-'));
  ca = await TestCa.create();
  outside = new OutsideNetwork(66);
  const pair = await ca.issue({ name: 'server', answersFor: [{ type: 'ip', value: outside.far }] });
  for (const [name, text] of Object.entries(pair)) writeFileSync(path.join(folder, name), text, { mode: 0o600 });
  const program = `
    const read = (name) => require('fs').readFileSync(${JSON.stringify(folder)} + '/' + name);
    require('https').createServer({ cert: read('certificate'), key: read('key') }, (_, reply) => reply.end('trusted'))
      .listen(443, '${outside.far}', () => console.log('up'));`;
  server = spawn(...outside.command(process.execPath, '-e', program));
  await new Promise((resolve) => server.stdout!.once('data', resolve));
  url = `https://${outside.far}/`;
  registry = await LoopbackRegistry.start(folder);
}, 60_000);

afterAll(async () => {
  server.kill();
  outside.remove();
  await registry.stop();
  for (const digest of digests) forgetImage(digest);
  rmSync(folder, { recursive: true, force: true });
});

const openServers = () => [{ address: outside.far, port: 443 }];
const open = (more: object = {}) =>
  LocalHost.open({ sandboxCa: [`${ca.pair.certificate.trim()}\n`], openServers: openServers(), ...more });

async function create(host: LocalHost, overrides: Partial<SandboxSpec> = {}) {
  const spec = host.spec({ allowInternetAccess: true, ...overrides });
  return { spec, place: await host.driver.create(spec) };
}

interface Made {
  spec: SandboxSpec;
  place: SandboxPlace;
}

const python = (module: string, call: string) => `python3 -c "import ${module} as m; print(${call})"`;

/** Programs with stores of their own: each prints what the server answers. */
const clients = (): Record<string, string> => ({
  curl: `curl -sS --max-time 20 ${url}`,
  wget: `wget -q -O - ${url}`,
  urllib: python('urllib.request', `m.urlopen('${url}').read().decode()`),
  requests: python('pip._vendor.requests', `m.get('${url}').text`),
  Node: `/.platform/bin/node -e "fetch('${url}').then((reply) => reply.text()).then(console.log, (error) => { console.log(error.cause); process.exit(1); })"`,
});

/** The clients that the server's certificate satisfies. @param prefix of each command, such as `sudo` */
async function trusting({ place, spec }: Made, prefix = ''): Promise<string[]> {
  const trust: string[] = [];
  for (const [name, command] of Object.entries(clients())) {
    const { exitCode, output } = await shell(place, spec, `${prefix} ${command}`);
    if (exitCode === 0 && output === 'trusted') trust.push(name);
    else expect(`${name}: ${output}`).toMatch(/certificate|CERTIFICATE|^wget: $/);
  }
  return trust;
}

const everyClient = ['curl', 'wget', 'urllib', 'requests', 'Node'];

test('without the setting, no program in a sandbox trusts the CA', async () => {
  await using host = await LocalHost.open({ openServers: openServers() });
  const made = await create(host);
  expect(await trusting(made)).toEqual([]);
  expect((await shell(made.place, made.spec, 'ls -d /.platform/ca; env')).output).not.toMatch(/^\/|CA_BUNDLE/m);
}, 120_000);

test('every program trusts the CA, also without variables, after an update of the store, a pause and a restart', async () => {
  await using host = await open();
  const made = await create(host);
  expect(await trusting(made)).toEqual(everyClient);
  // As sudo does it. Node finds the CA only through its variable.
  const inStores = everyClient.filter((name) => name !== 'Node');
  expect(await trusting(made, 'env -i PATH=/usr/bin:/bin')).toEqual(inStores);
  const updated = await shell(made.place, made.spec, 'update-ca-certificates --fresh');
  expect(updated).toMatchObject({ exitCode: 0 });
  expect(await trusting(made, 'env -i PATH=/usr/bin:/bin')).toEqual(inStores);

  await host.driver.pause(made.spec.sandboxId);
  const resumed = { spec: made.spec, place: await host.driver.resume(made.spec) };
  expect(await trusting(resumed)).toEqual(everyClient);
  const count = `grep -c BEGIN /etc/ssl/certs/ca-certificates.crt; ls /etc/ssl/certs /usr/local/share/ca-certificates | wc -l`;
  const before = await shell(resumed.place, made.spec, count);
  const restarted = { spec: made.spec, place: await host.driver.restart(made.spec) };
  expect(await trusting(restarted)).toEqual(everyClient);
  expect(await shell(restarted.place, made.spec, count)).toEqual(before);
}, 180_000);

test('a sandbox of the warm pool trusts the CA, and its own variables come first', async () => {
  await using host = await open({ warmPoolSize: 1 });
  await until(() => host.driver.poolReady > 0, 120_000, 20);
  const made = await create(host, { storageGb: 10, env: { NODE_EXTRA_CA_CERTS: '/nothing', PIP_CERT: '' } });
  expect(made.place.from).toBe('pool');
  expect(await trusting(made)).toEqual(everyClient.filter((name) => name !== 'Node'));
  const { output } = await shell(made.place, made.spec, 'echo "$NODE_EXTRA_CA_CERTS,$PIP_CERT,$SSL_CERT_FILE"');
  expect(output).toBe('/nothing,,/etc/ssl/certs/ca-certificates.crt');
}, 180_000);

/** A file of a sandbox of an image with these entries, which need not contain a shell. */
async function fromImage(host: LocalHost, entries: TarEntry[]) {
  const name = `ca-${digests.length}`;
  const { digest } = await pushImage(`http://${registry.address}`, name, { layers: [createLayer(entries)] });
  digests.push(digest);
  const { spec, place } = await create(host, { image: `${registry.address}/${name}@${digest}` });
  return async (file: string) => {
    const reply = await fetch(`http://${place.address}:${place.agentPort}/download${file}`, {
      headers: { 'x-access-token': spec.accessToken! },
    });
    return reply.status === 200 ? await reply.text() : reply.status;
  };
}

test('the stores of other distributions get the CA, and an image without a store gets one', async () => {
  await using host = await open({ registryInsecureHttp: true });
  const extracted = 'etc/pki/ca-trust/extracted/pem';
  const fedora = await fromImage(host, [
    { name: `${extracted}/tls-ca-bundle.pem`, content: '# of Fedora', mode: 0o444 },
    { name: 'etc/pki/tls/certs/ca-bundle.crt', type: '2', link: `/${extracted}/tls-ca-bundle.pem` },
    { name: 'etc/pki/ca-trust/source/anchors/', type: '5' },
  ]);
  const certificate = ca.pair.certificate.trim();
  expect(await fedora(`/${extracted}/tls-ca-bundle.pem`)).toBe(`# of Fedora\n${certificate}\n`);
  const suse = await fromImage(host, [{ name: 'var/lib/ca-certificates/ca-bundle.pem', content: '' }]);
  expect(await suse('/var/lib/ca-certificates/ca-bundle.pem')).toBe(`${certificate}\n`);
  const empty = await fromImage(host, [{ name: 'file', content: 'nothing else' }]);
  const store = (await empty('/etc/ssl/certs/ca-certificates.crt')) as string;
  expect(store).toContain(certificate);
  expect(store.match(/BEGIN CERTIFICATE/g)!.length).toBeGreaterThan(100);
}, 180_000);

test('a link or a pipe in an image leads to no file of the host, and its sandbox starts', async () => {
  await using host = await open({ registryInsecureHttp: true });
  const trap = path.join(folder, 'trap');
  writeFileSync(trap, 'of the host');
  const up = '../'.repeat(20);
  const linked = await fromImage(host, [
    { name: 'etc/ssl/certs', type: '2', link: `${up}${folder.slice(1)}` },
    { name: 'etc/ssl/cert.pem', type: '2', link: trap },
    { name: 'usr/local/share/ca-certificates', type: '2', link: folder },
    { name: 'var/lib/ca-certificates/ca-bundle.pem', type: '6' },
  ]);
  expect(await linked('/etc/ssl/cert.pem')).toBe(404);
  const looped = await fromImage(host, [
    { name: 'etc/ssl/certs', type: '2', link: 'certs' },
    { name: 'etc/ssl/cert.pem', type: '3', device: [1, 3] },
  ]);
  expect(await looped('/.platform/ca/extra.pem')).toBe(`${ca.pair.certificate.trim()}\n`);
  expect(readFileSync(trap, 'utf8')).toBe('of the host');
  expect(readdirSync(folder).filter((name) => /crt$|\.0$/.test(name))).toEqual([]);
  expect(existsSync(path.join(folder, 'ca-certificates.crt'))).toBe(false);
}, 180_000);
