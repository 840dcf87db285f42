import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { gzipSync, zstdCompressSync } from 'node:zlib';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from '@jest/globals';
import { innerLoopbackAddress } from '../../../domain/outbound-addresses.ts';
import { parseImageReference } from '../../../domain/templates/image-reference.ts';
import { issueLeaf, openLocalCa } from '../../../gateway/tls/local-ca.ts';
import { UnusableImageError } from '../../../integrations/registry/external-image.ts';
import { ImageImports, type ImportProgress, TargetError } from '../../../integrations/registry/image-import.ts';
import { ForbiddenAddressError } from '../../../integrations/registry/outbound-guard.ts';
import { ownArchitecture } from '../../../integrations/registry/own-architecture.ts';
import { PlatformRegistry } from '../../../integrations/registry/platform-registry.ts';
import { RegistryError } from '../../../integrations/registry/registry-client.ts';
import { loadSettings } from '../../../platform/config/settings.ts';
import type { Json } from '../../api/contract-client.ts';
import { freePort } from '../../support/free-port.ts';
import { anyLayer, computeDigest, hasManifest, ociLayer, pushImage, putManifest } from '../../support/pushed-image.ts';
import { RegistryFront } from '../../support/registry-front.ts';
import { registryAddress } from '../../support/stack.ts';
import { until } from '../../support/until.ts';

let address: string;
let origin: string;
let front: RegistryFront;
let registry: PlatformRegistry;
let imports: ImageImports;
/** The name at the source and at the target; new for each test. */
let name: string;

const repeated = randomBytes(1024 ** 2);
const noSandboxes = async () => [];
const settingsWith = (more: Record<string, string> = {}) =>
  loadSettings({
    PLATFORM_SECRET_KEY: Buffer.alloc(32, 7).toString('base64'),
    DATABASE_URL: 'postgres://127.0.0.1:5432/x',
    PLATFORM_REGISTRY: address,
    PLATFORM_REGISTRY_INSECURE_HTTP: 'true',
    PLATFORM_OUTBOUND_RANGES: '127.0.0.0/8',
    ...more,
  });

beforeAll(async () => {
  address = await registryAddress();
  origin = `http://${address}`;
  registry = PlatformRegistry.of(settingsWith())!;
  imports = new ImageImports(settingsWith(), registry, noSandboxes);
});
afterAll(() => {
  imports.close();
  registry.close();
});
beforeEach(async () => {
  name = `i${randomBytes(6).toString('hex')}`;
  front = await RegistryFront.start(address);
});
afterEach(() => front.stop());

interface Seen {
  progress: ImportProgress[];
  lines: string[];
  size: number;
}

async function copy(
  reference = `${front.address}/source/${name}:latest`,
  more: {
    credentials?: { username: string; password: string };
    signal?: AbortSignal;
    by?: ImageImports;
    path?: string;
    onLine?: () => void;
  } = {},
) {
  const seen: Seen = { progress: [], lines: [], size: 0 };
  const image = await (more.by ?? imports).copy({
    reference: parseImageReference(reference)!,
    credentials: more.credentials ?? null,
    to: { path: more.path ?? `target/${name}`, tag: 'latest' },
    onFound: async ({ sizeBytes }) => {
      seen.size = sizeBytes;
    },
    onProgress: (progress) => seen.progress.push(progress),
    onLine: (line) => {
      seen.lines.push(line);
      more.onLine?.();
    },
    signal: more.signal ?? AbortSignal.timeout(110_000),
  });
  return { image, ...seen };
}

test('an image arrives with its digest, its size and the correct progress, and nothing is left in memory', async () => {
  const pushed = await pushImage(origin, `source/${name}`, { layers: [anyLayer(300_000), anyLayer(1000)] });
  const { image, size, progress, lines } = await copy();
  expect(image).toMatchObject({ digest: pushed.digest, sizeBytes: pushed.sizeBytes });
  expect(size).toBe(pushed.sizeBytes);
  expect(progress.at(-1)).toMatchObject({ bytesDone: size, bytesTotal: size, blobsDone: 3, blobsTotal: 3 });
  expect(lines.join('\n')).toMatch(/Copying blob/);
  expect(await hasManifest(origin, `target/${name}`, 'latest')).toBe(true);
  const left = fs.readdirSync('/dev/shm').filter((file) => file.startsWith(`sandbox-platform-import-${process.pid}-`));
  expect(left).toEqual([]);
});

test.each([
  ['a password', null],
  ['a token for the password', 'own'],
])('from a private registry with %s', async (_what, realm) => {
  await pushImage(origin, `source/${name}`);
  const credentials = { username: 'ada', password: 'a-long-secret' };
  Object.assign(front, { password: credentials, realm });
  const { lines } = await copy(undefined, { credentials });
  expect(lines.join()).not.toContain('a-long-secret');
  for (const wrong of [undefined, { username: 'ada', password: 'guess' }]) {
    await expect(copy(undefined, wrong ? { credentials: wrong } : {})).rejects.toMatchObject({ status: 401 });
  }
});

/** Waits until a copy has transferred a layer. */
const isThere = (layer: Parameters<typeof registry.blobsThere>[1][number]) =>
  until(async () => {
    try {
      return (await registry.blobsThere(`target/${name}`, [layer])).size === 1;
    } catch (error) {
      // The registry answers 500 while it writes the link to a blob.
      if (error instanceof RegistryError && error.status === 500) return false;
      throw error;
    }
  });

test('an interrupted copy continues without the blobs that have arrived', async () => {
  const layers = [anyLayer(100_000), anyLayer(2_000_000)];
  const { digest, sizeBytes, layers: pushed } = await pushImage(origin, `source/${name}`, { layers });
  // It is interrupted when the small layer has arrived.
  front.fault = { stallsAfter: 1_000_000, cutAfter: 1_500_000 };
  const broken = expect(copy()).rejects.toThrow('The external registry has broken off the transfer');
  await isThere(pushed[0]!);
  front.fault = { cutAfter: 1_000_000 };
  await broken;
  expect(await hasManifest(origin, `target/${name}`, 'latest')).toBe(false);
  front.fault = {};
  front.bytesSent = 0;
  const { image, progress, lines } = await copy();
  expect(image.digest).toBe(digest);
  expect(lines[0]).toMatch(/^[12] blobs are in the registry already/);
  expect(front.bytesSent).toBeLessThan(sizeBytes - 99_000);
  expect(progress.at(-1)).toMatchObject({ blobsDone: 3, bytesDone: sizeBytes });
});

test('after a kill no tool continues, and the next copy skips the blobs that have arrived', async () => {
  const layers = [anyLayer(500_000), anyLayer(3_000_000)];
  const { digest, sizeBytes, layers: pushed } = await pushImage(origin, `source/${name}`, { layers });
  front.fault = { stallsAfter: 1_000_000 };
  const program = path.join(import.meta.dirname, 'copying-process.ts');
  const args = [address, `${front.address}/source/${name}:latest`, `target/${name}`];
  const child = spawn(process.execPath, [program, ...args], { stdio: ['ignore', 'pipe', 'inherit'] });
  await isThere(pushed[0]!);
  const tools = running('skopeo', child.pid);
  child.kill('SIGKILL');
  await once(child, 'close');
  await until(() => tools.every((pid) => !fs.existsSync(`/proc/${pid}`)));
  front.fault = {};
  front.bytesSent = 0;
  const { image } = await copy();
  expect(image.digest).toBe(digest);
  // A chunk may be counted on a connection whose end is not yet known.
  expect(front.bytesSent).toBeLessThan(sizeBytes - 400_000);
});

test('a layer that does not match its digest is refused', async () => {
  await pushImage(origin, `source/${name}`, { layers: [anyLayer(100_000)] });
  front.fault = { lies: true };
  await expect(copy()).rejects.toThrow();
  expect(await hasManifest(origin, `target/${name}`, 'latest')).toBe(false);
});

test.each<[string, (size: number) => number]>([
  ['too large', (size) => size + 10 ** 9],
  // The tool does not read a blob that the target has.
  ['too small, of a layer that is at the target', () => 174],
])('sizes in the manifest that are %s are refused', async (_what, claimed) => {
  const layer = anyLayer(200_000);
  const honest = await pushImage(origin, `source/${name}`, { layers: [layer], tag: 'honest' });
  const { image } = await copy(`${front.address}/source/${name}:honest`);
  expect(image).toMatchObject({ digest: honest.digest, sizeBytes: honest.sizeBytes, wrongSize: null });
  const lying = await pushImage(origin, `source/${name}`, { layers: [layer], claimed });
  const [{ digest, size }] = lying.layers as [{ digest: string; size: number }];
  const reason = `says that ${digest} has ${claimed(layer.bytes.length)} bytes, but it has ${layer.bytes.length}`;
  expect(size).toBe(claimed(layer.bytes.length));
  await expect(copy()).rejects.toThrow(reason);
  expect(await registry.measure(`target/${name}`, lying.digest)).toMatchObject({
    sizeBytes: honest.sizeBytes,
    wrongSize: expect.stringContaining(reason),
  });
});

test('a manifest that gives one layer two sizes is refused', async () => {
  const layer = anyLayer(10_000);
  let size = 0;
  await pushImage(origin, `source/${name}`, { layers: [layer, layer], claimed: () => ++size });
  await expect(copy()).rejects.toThrow('The manifest gives one layer two sizes');
});

test('over TLS with a private authority, only if it is trusted', async () => {
  await pushImage(origin, `source/${name}`);
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'registry-ca-'));
  const ca = await openLocalCa(folder);
  const secure = await RegistryFront.start(address, await issueLeaf(ca, 'localhost'));
  const reference = `localhost:${secure.address.split(':')[1]}/source/${name}`;
  fs.writeFileSync(path.join(folder, 'authority.pem'), ca.certificatePem);
  const trusting = new ImageImports(
    settingsWith({ PLATFORM_IMPORT_CA_FILE: path.join(folder, 'authority.pem') }),
    registry,
    noSandboxes,
  );
  try {
    await expect(copy(reference)).rejects.toMatchObject({ name: 'RegistryError', status: 0 });
    expect(secure.asked).toEqual([]);
    expect((await copy(reference, { by: trusting })).image.digest).toMatch(/^sha256:/);
  } finally {
    trusting.close();
    await secure.stop();
    fs.rmSync(folder, { recursive: true });
  }
});

test('into a registry with a prefix, a password and a private authority', async () => {
  const pushed = await pushImage(origin, `source/${name}`);
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'registry-ca-'));
  const file = (what: string, text: string) => {
    fs.writeFileSync(path.join(folder, what), text);
    return path.join(folder, what);
  };
  const ca = await openLocalCa(folder);
  const secure = await RegistryFront.start(address, await issueLeaf(ca, 'localhost'));
  secure.password = { username: 'platform', password: 'a-long-secret' };
  const settings = settingsWith({
    PLATFORM_REGISTRY: `localhost:${secure.address.split(':')[1]}/sandboxes`,
    PLATFORM_REGISTRY_INSECURE_HTTP: '',
    PLATFORM_REGISTRY_USERNAME: 'platform',
    PLATFORM_REGISTRY_PASSWORD_FILE: file('password', 'a-long-secret\n'),
    PLATFORM_REGISTRY_CA_FILE: file('authority.pem', ca.certificatePem),
  });
  const target = PlatformRegistry.of(settings)!;
  const by = new ImageImports(settings, target, noSandboxes);
  try {
    const place = target.formatPath({ project: 'usr-a', repository: name });
    const { image, lines } = await copy(undefined, { by, path: place });
    expect(image.digest).toBe(pushed.digest);
    expect(lines.join()).not.toContain('a-long-secret');
    expect(await hasManifest(origin, `sandboxes/usr-a/${name}`, 'latest')).toBe(true);
    expect(await target.repositories()).toContain(place);
    expect([target.parseProject(place), target.parseProject(`usr-a/${name}`)]).toEqual(['usr-a', '']);
    expect(await target.taggedDigests(place)).toEqual([pushed.digest]);
    await target.remove(place, pushed.digest);
    expect(await hasManifest(origin, `sandboxes/usr-a/${name}`, 'latest')).toBe(false);
  } finally {
    by.close();
    target.close();
    await secure.stop();
    fs.rmSync(folder, { recursive: true });
  }
});

test('an abort kills the tool at once and leaves no tag', async () => {
  await pushImage(origin, `source/${name}`, { layers: [anyLayer(3_000_000)] });
  front.fault = { stallsAfter: 200_000 };
  const stop = new AbortController();
  const copying = copy(undefined, { signal: stop.signal, onLine: () => stop.abort(new Error('enough')) });
  await expect(copying).rejects.toThrow('enough');
  expect(await hasManifest(origin, `target/${name}`, 'latest')).toBe(false);
  await until(() => running('skopeo').length === 0);
});

/** Programs with that name that a process has started. */
function running(program: string, parentPid = process.pid): string[] {
  return fs.readdirSync('/proc').filter((pid) => {
    if (!/^\d+$/.test(pid)) return false;
    try {
      const [, comm, rest] = /^\d+ \((.*)\) (.*)$/s.exec(fs.readFileSync(`/proc/${pid}/stat`, 'utf8')) ?? [];
      const [state, parent] = (rest ?? '').split(' ');
      return comm === program && Number(parent) === parentPid && state !== 'Z';
    } catch {
      return false;
    }
  });
}

test('a layer with more bytes than in its manifest ends the copy permanently', async () => {
  await pushImage(origin, `source/${name}`, { layers: [anyLayer(200_000)] });
  front.fault = { appends: 20_000_000 };
  await expect(copy()).rejects.toThrow(UnusableImageError);
  expect(await hasManifest(origin, `target/${name}`, 'latest')).toBe(false);
});

test('a failure of the platform’s registry is distinguished from one of the external registry', async () => {
  await pushImage(origin, `source/${name}`);
  const target = await RegistryFront.start(address);
  target.password = { username: 'ada', password: 'a-long-secret' };
  const settings = settingsWith({ PLATFORM_REGISTRY: target.address });
  const locked = PlatformRegistry.of(settings)!;
  const by = new ImageImports(settings, locked, noSandboxes);
  try {
    await expect(copy(undefined, { by })).rejects.toThrow(TargetError);
  } finally {
    by.close();
    locked.close();
    await target.stop();
  }
});

const metadata = 'http://169.254.169.254';

test.each([
  ['a redirect of a blob', () => Object.assign(front, { redirectTo: metadata })],
  ['a token server', () => Object.assign(front, { realm: `${metadata}/token` })],
])('%s at a closed address is never connected to', async (_what, arrange) => {
  await pushImage(origin, `source/${name}`);
  arrange();
  await expect(copy()).rejects.toThrow(ForbiddenAddressError);
});

test('the platform’s own services are closed even with open ranges, also through redirects and tokens', async () => {
  await pushImage(origin, `source/${name}`);
  // Each refusal is that of a closed port.
  const closedPort = await freePort();
  const refused = (host: string) => new RegistryError(`${host} cannot be reached`, 0);
  for (const host of [`127.0.0.1:${closedPort}`, address, `localhost:${address.split(':')[1]}`]) {
    await expect(copy(`${host}/source/${name}`)).rejects.toEqual(refused(host));
  }
  front.redirectTo = 'http://127.0.0.1:5432';
  await expect(copy()).rejects.toEqual(refused('127.0.0.1:5432'));
  Object.assign(front, { redirectTo: null, realm: `http://[::ffff:127.0.0.1]:5432/token` });
  await expect(copy()).rejects.toEqual(refused('[::ffff:7f00:1]:5432'));
  await expect(copy(`${innerLoopbackAddress}:${closedPort}/source/${name}`)).rejects.toThrow(ForbiddenAddressError);
});

test('sandboxes are closed even with open ranges', async () => {
  const settings = settingsWith({ PLATFORM_OUTBOUND_RANGES: '0.0.0.0/0,::/0' });
  const guarded = new ImageImports(settings, registry, async () => ['10.99.0.0/20', '127.7.0.0/16']);
  for (const host of ['10.99.1.2:5000', '127.7.0.9:5000', '[::ffff:7f07:9]:5000', '[64:ff9b::a63:102]:5000']) {
    await expect(copy(`${host}/source/${name}`, { by: guarded })).rejects.toThrow('cannot be reached');
  }
  guarded.close();
});

test('without opened ranges, this machine and private networks are closed', async () => {
  const closed = new ImageImports(settingsWith({ PLATFORM_OUTBOUND_RANGES: 'none' }), registry, noSandboxes);
  for (const host of [front.address, 'localhost:1', '10.0.0.1', '[::1]:80', '[fd00::1]']) {
    await expect(copy(`${host}/source/${name}`, { by: closed })).rejects.toThrow(ForbiddenAddressError);
  }
  closed.close();
});

test('an image for several platforms is copied for this one; an image only for others is refused', async () => {
  const path = `source/${name}`;
  const own = await pushImage(origin, path, { tag: 'own' });
  const foreign = ownArchitecture === 'arm64' ? 'amd64' : 'arm64';
  const other = await pushImage(origin, path, { tag: 'other', config: { architecture: foreign } });
  const entry = (digest: string, architecture: string) => ({
    ...{ mediaType: 'application/vnd.oci.image.manifest.v1+json', digest, size: 500 },
    platform: { os: 'linux', architecture },
  });
  const mediaType = 'application/vnd.oci.image.index.v1+json';
  const index = (manifests: object[]) => ({ schemaVersion: 2, mediaType, manifests });
  await putManifest(origin, path, 'both', index([entry(other.digest, foreign), entry(own.digest, ownArchitecture)]));
  await putManifest(origin, path, 'others', index([entry(other.digest, foreign)]));
  expect((await copy(`${front.address}/${path}:both`)).image.digest).toBe(own.digest);
  const refused = `only for linux/${foreign}`;
  await expect(copy(`${front.address}/${path}:others`)).rejects.toThrow(refused);
  await expect(copy(`${front.address}/${path}:other`)).rejects.toThrow(`The image is for linux/${foreign}`);
  await expect(copy(`${front.address}/${path}:gone`)).rejects.toThrow(UnusableImageError);
});

test('an image in Docker’s own formats is copied unchanged', async () => {
  const docker = 'application/vnd.docker';
  const { digest } = await pushImage(origin, `source/${name}`, {
    manifestType: `${docker}.distribution.manifest.v2+json`,
    configType: `${docker}.container.image.v1+json`,
    layers: [{ ...anyLayer(), mediaType: `${docker}.image.rootfs.diff.tar.gzip` }],
  });
  expect((await copy()).image.digest).toBe(digest);
});

test('layers in zstd are converted to gzip, which every host can unpack', async () => {
  const tar = Buffer.alloc(1024 * 20);
  const layer = { bytes: zstdCompressSync(tar), mediaType: ociLayer.replace('gzip', 'zstd') };
  await pushImage(origin, `source/${name}`, {
    layers: [layer],
    config: { rootfs: { type: 'layers', diff_ids: [computeDigest(tar)] } },
  });
  const { image } = await copy();
  const accept = { headers: { accept: 'application/vnd.oci.image.manifest.v1+json' } };
  const reply = await fetch(`${origin}/v2/target/${name}/manifests/${image.digest}`, accept);
  const manifest = (await reply.json()) as Json;
  expect(manifest.layers).toMatchObject([{ mediaType: ociLayer }]);
});

test('a small layer in zstd that becomes a large one in gzip ends the copy permanently', async () => {
  // The repetitions are too far apart for gzip.
  const tar = Buffer.concat(Array.from({ length: 256 }, () => repeated));
  const layer = { bytes: zstdCompressSync(tar), mediaType: ociLayer.replace('gzip', 'zstd') };
  expect(layer.bytes.length).toBeLessThan(2 * repeated.length);
  await pushImage(origin, `source/${name}`, {
    layers: [layer],
    config: { rootfs: { type: 'layers', diff_ids: [computeDigest(tar)] } },
  });
  const by = new ImageImports(settingsWith(), registry, noSandboxes, { factor: 4, bytes: 1024 ** 2 });
  try {
    await expect(copy(undefined, { by })).rejects.toThrow('The layers grow too much');
  } finally {
    by.close();
  }
  expect(await hasManifest(origin, `target/${name}`, 'latest')).toBe(false);
});

test.each([
  ['what is no image', { configType: 'application/vnd.cncf.helm.config.v1+json' }],
  ['a layer of an unknown kind', { layers: [{ bytes: gzipSync('x'), mediaType: 'application/x-squashfs' }] }],
])('%s is refused', async (_what, image) => {
  await pushImage(origin, `source/${name}`, image);
  await expect(copy()).rejects.toThrow(UnusableImageError);
});
