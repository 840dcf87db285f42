import { randomBytes } from 'node:crypto';
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { mkdtemp } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import zlib from 'node:zlib';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { makeImageOnce, type UnpackedImage } from '../../runtime/images/image-cache.ts';
import { RegistryPull } from '../../runtime/images/registry-pull.ts';
import { LoopbackRegistry } from '../support/loopback-registry.ts';
import { type PushedBlob, pushImage, putManifest } from '../support/pushed-image.ts';
import { createLayer, sha256, type TarEntry, tar } from '../support/tar-layer.ts';
import { onHost } from './local-host.ts';

/** Images that tools make rarely or never. Each is unpacked as Docker does, or refused with the reason. */
let folder: string;
let server: LoopbackRegistry;
let origin: string;
let pull: RegistryPull;
let made = 0;

beforeAll(async () => {
  folder = mkdtempSync(path.join(os.tmpdir(), 'odd-images-'));
  server = await LoopbackRegistry.start(folder);
  origin = `http://${server.address}`;
  const open = { username: null, passwordFile: null, caFile: null };
  pull = new RegistryPull({ address: server.address, insecureHttp: true, ...open });
});
afterAll(async () => {
  pull.close();
  await server.stop();
  rmSync(folder, { recursive: true, force: true });
});

interface Wanted {
  layers: PushedBlob[];
  config?: object;
  manifestType?: string;
  configType?: string;
}

async function pulled(wanted: Wanted, limits = { maxBytes: 64 * 1024 ** 2, maxFiles: 10_000 }): Promise<UnpackedImage> {
  const name = `odd-${made++}`;
  const { digest } = await pushImage(origin, name, wanted);
  return pulledBy(name, digest, limits);
}

async function pulledBy(name: string, digest: string, limits = { maxBytes: 64 * 1024 ** 2, maxFiles: 10_000 }) {
  const cacheDir = await mkdtemp(path.join(folder, 'cache-'));
  const make = (draft: string) => pull.pull({ path: name, digest }, draft, limits);
  return makeImageOnce({ cacheDir, digest, make });
}

const ofEntries = (...layers: TarEntry[][]) => pulled({ layers: layers.map((entries) => createLayer(entries)) });
const read = (image: UnpackedImage, name: string) => readFileSync(path.join(image.rootfs, name), 'utf8');
const names = (image: UnpackedImage, name = '.') => readdirSync(path.join(image.rootfs, name)).sort();
const refusal = (image: Promise<unknown>) =>
  image.then(
    () => 'unpacked',
    (error) => `${error.name}: ${error.message}`,
  );

test.each(['plain', 'gzip', 'zstd', 'docker'] as const)('a layer in %s', async (kind) => {
  const image = await pulled({ layers: [createLayer([{ name: 'file', content: kind }], kind)] });
  expect(read(image, 'file')).toBe(kind);
});

test('compression is detected from the bytes and not from the media type, also with several members or frames', async () => {
  const bytes = tar([{ name: 'file', content: 'x'.repeat(100_000) }]);
  const [one, two] = [bytes.subarray(0, 40_000), bytes.subarray(40_000)];
  const mediaType = 'application/vnd.oci.image.layer.v1.tar';
  for (const packed of [
    Buffer.concat([zlib.gzipSync(one), zlib.gzipSync(two)]),
    Buffer.concat([zlib.zstdCompressSync(one), zlib.zstdCompressSync(two)]),
  ]) {
    expect(read(await pulled({ layers: [{ bytes: packed, mediaType }] }), 'file')).toHaveLength(100_000);
  }
});

test('a manifest of Docker, version 2', async () => {
  const image = await pulled({
    layers: [createLayer([{ name: 'file', content: 'docker' }], 'docker')],
    manifestType: 'application/vnd.docker.distribution.manifest.v2+json',
    configType: 'application/vnd.docker.container.image.v1+json',
    config: {
      config: { Env: ['A=1', 'B=2=3', 'C'], WorkingDir: '/app', User: '7:8', Entrypoint: ['/run'], Cmd: ['x'] },
    },
  });
  expect(read(image, 'file')).toBe('docker');
  expect(image.config).toEqual({
    ...{ env: { A: '1', B: '2=3' }, workingDir: '/app', user: '7:8', entrypoint: ['/run'], cmd: ['x'] },
  });
});

test('a list of images for several platforms is not an image: imports choose one', async () => {
  const name = `odd-${made++}`;
  const { digest } = await pushImage(origin, name);
  const mediaType = 'application/vnd.oci.image.index.v1+json';
  const each = { digest, size: 500, mediaType: 'application/vnd.oci.image.manifest.v1+json' };
  const index = {
    schemaVersion: 2,
    mediaType,
    manifests: [{ ...each, platform: { os: 'linux', architecture: 'amd64' } }],
  };
  const list = await putManifest(origin, name, 'list', index);
  expect(await refusal(pulledBy(name, list))).toBe('ImageRefusedError: It is a list of images for several platforms');
});

test('127 layers, each over the one below, and deletions of what lower ones have', async () => {
  const layers = Array.from({ length: 125 }, (_, at) =>
    createLayer([
      { name: `only-${at}`, content: String(at) },
      { name: 'shared', content: String(at) },
    ]),
  );
  layers.push(createLayer([{ name: '.wh.only-3' }, { name: 'd/', type: '5' }, { name: 'd/lower', content: 'x' }]));
  layers.push(createLayer([{ name: 'd/.wh..wh..opq' }, { name: 'd/upper', content: 'y' }, { name: '.wh.absent' }]));
  const image = await pulled({ layers });
  expect(read(image, 'shared')).toBe('124');
  expect(names(image).filter((name) => name.startsWith('only-'))).toHaveLength(124);
  expect(names(image)).not.toContain('only-3');
  expect(names(image, 'd')).toEqual(['upper']);
});

test('a deletion removes only files of lower layers, regardless of its place in its own layer', async () => {
  const image = await ofEntries(
    [
      { name: 'd/', type: '5' },
      { name: 'd/old', content: '1' },
      { name: 'f', content: '1' },
    ],
    [{ name: 'd/new', content: '2' }, { name: 'f', content: '2' }, { name: '.wh.f' }, { name: 'd/.wh..wh..opq' }],
  );
  expect([read(image, 'f'), names(image, 'd')]).toEqual(['2', ['new']]);
});

test('entries of other kinds are replaced: a folder a file, a file a folder, a link a folder; links are not followed', async () => {
  const image = await ofEntries(
    [
      { name: 'was-folder/', type: '5' },
      { name: 'was-folder/inner', content: '1' },
      { name: 'was-file', content: '1' },
      { name: 'target', content: 'untouched' },
      { name: 'link', type: '2', link: 'target' },
      { name: 'hard', type: '1', link: 'target' },
      { name: 'to-folder', type: '2', link: 'real' },
      { name: 'real/', type: '5' },
    ],
    [
      { name: 'was-folder', content: '2' },
      { name: 'was-file/', type: '5' },
      { name: 'link', content: '2' },
      { name: 'hard', content: '2' },
      { name: 'to-folder/through', content: '2' },
    ],
  );
  expect(read(image, 'was-folder')).toBe('2');
  expect(statSync(path.join(image.rootfs, 'was-file')).isDirectory()).toBe(true);
  expect([read(image, 'target'), read(image, 'link'), read(image, 'hard')]).toEqual(['untouched', '2', '2']);
  // As in Docker, a link to a folder is followed within the image.
  expect(names(image, 'real')).toEqual(['through']);
});

test('hard links, capabilities, special bits, devices, odd names, long names and large ids are kept', async () => {
  const capability = Buffer.from('0100000200200000000000000000000000000000', 'hex');
  const long = `${'d'.repeat(150)}/${'f'.repeat(200)}`;
  const image = await ofEntries([
    {
      name: 'one',
      content: 'same',
      mode: 0o4755,
      uid: 1234,
      records: { 'SCHILY.xattr.security.capability': capability },
    },
    { name: '/two', type: '1', link: '/one' },
    { name: './null', type: '3', device: [1, 3], mode: 0o666 },
    { name: 'pipe', type: '6' },
    { name: 'x', content: 'long', records: { path: long } },
    { name: 'y', content: 'odd', records: { path: 'new\nline', uid: '60000' } },
    { name: 'a//b/./c', content: 'parents' },
  ]);
  const about = (name: string) => statSync(path.join(image.rootfs, name));
  expect(about('two')).toMatchObject({ ino: about('one').ino, nlink: 2, uid: 1234, mode: 0o104755 });
  expect(about('null')).toMatchObject({ rdev: (1 << 8) | 3, mode: 0o20666 });
  expect(about('pipe').isFIFO()).toBe(true);
  expect([read(image, long), read(image, 'a/b/c'), about('new\nline').uid]).toEqual(['long', 'parents', 60_000]);
  const script = 'import os, sys; print(os.getxattr(sys.argv[1], "security.capability").hex())';
  expect(onHost('python3', '-c', script, path.join(image.rootfs, 'one'))).toBe(capability.toString('hex'));
});

test('paths out of the image stay in it or are refused', async () => {
  const trap = path.join(folder, 'trap');
  writeFileSync(trap, 'untouched');
  expect(await refusal(ofEntries([{ name: '../escaped', content: 'x' }]))).toContain('leads out of it');
  expect(await refusal(ofEntries([{ name: 'a', type: '1', link: '../../trap' }]))).toContain('leads out of it');
  expect(await refusal(ofEntries([{ name: 'a', type: '1', link: trap }]))).toContain('a hard link to nothing');
  expect(await refusal(ofEntries([{ name: '../../x', type: '5' }]))).toContain('leads out of it');
  const image = await ofEntries(
    [
      { name: 'absolute', type: '2', link: folder },
      { name: 'relative', type: '2', records: { linkpath: `${'../'.repeat(40)}${folder.slice(1)}` } },
      { name: trap, content: 'inside' },
    ],
    [
      { name: 'absolute/trap', content: 'inside' },
      { name: 'relative/other', content: 'inside' },
    ],
  );
  expect(readFileSync(trap, 'utf8')).toBe('untouched');
  expect(names(image, folder.slice(1))).toEqual(['other', 'trap']);
  expect(readdirSync(folder)).not.toContain('other');
  expect(
    await refusal(ofEntries([{ name: 'gone', type: '2', link: '/nowhere' }], [{ name: 'gone/x', content: '' }])),
  ).toContain('below one that is no folder');
});

test('overlay marks in an image have no effect', async () => {
  const image = await ofEntries([
    {
      name: 'd/',
      type: '5',
      records: { 'SCHILY.xattr.trusted.overlay.opaque': 'y', 'SCHILY.xattr.user.note': 'kept' },
    },
  ]);
  const list = onHost(
    'python3',
    '-c',
    'import os, sys; print(os.listxattr(sys.argv[1]))',
    path.join(image.rootfs, 'd'),
  );
  expect(list).toBe("['user.note']");
});

test('bombs are refused before they use space: bytes, files, headers, sparse files, and endless expansion', async () => {
  const limits = { maxBytes: 1024 * 1024, maxFiles: 100 };
  const tried = (layers: PushedBlob[]) => refusal(pulled({ layers }, limits));
  const zeros = (bytes: number) => ({ name: `zeros-${bytes}`, content: Buffer.alloc(bytes) });
  expect(await tried([createLayer([zeros(600_000)]), createLayer([zeros(600_001)])])).toBe(
    'ImageRefusedError: Layer 2 of 2: the layer has more than the 1048576 bytes that an image may have',
  );
  const many = Array.from({ length: 101 }, (_, at) => ({ name: `f${at}` }));
  expect(await tried([createLayer(many)])).toContain('more than the 100 files that an image may have');
  const after = zlib.gzipSync(Buffer.concat([tar([{ name: 'f' }]), Buffer.alloc(40 * 1024 * 1024)]));
  expect(await tried([{ ...createLayer([]), bytes: after }])).toContain('much larger than what an image may have');
  const map = Buffer.alloc(512);
  map.write('1\n0\n512\n');
  const sparse = (realsize: number) => ({
    // As GNU tar writes it: the real name is only in the records.
    name: 'GNUSparseFile.0/sparse',
    content: Buffer.concat([map, Buffer.alloc(512, 'x')]),
    records: {
      'GNU.sparse.major': '1',
      'GNU.sparse.minor': '0',
      'GNU.sparse.name': 'sparse',
      'GNU.sparse.realsize': `${realsize}`,
    },
  });
  const image = await pulled({ layers: [createLayer([sparse(10 * 1024 ** 3)])] }, limits);
  expect(statSync(path.join(image.rootfs, 'sparse'))).toMatchObject({ size: 10 * 1024 ** 3 });
  expect(await tried([createLayer([sparse(9e15)])])).toContain('too large');
  expect(await tried([createLayer([{ name: 'x', records: { path: 'p'.repeat(5000) } }])])).toContain('too long');
  expect(await tried([createLayer([{ name: 'f', size: 8 ** 11 - 1 }])])).toMatch(/more than the|cut off/);
});

test('damaged images are refused with the reason, and nothing of them stays', async () => {
  const text = Buffer.from('no archive '.repeat(1000));
  const layer = (bytes: Buffer) => [{ bytes, mediaType: 'application/vnd.oci.image.layer.v1.tar+gzip' }];
  expect(await refusal(pulled({ layers: layer(zlib.gzipSync(text)) }))).toContain('no tar archive');
  // What arrives of it is an archive: otherwise that could be the reason, too.
  const packed = zlib.gzipSync(tar([{ name: 'f', content: randomBytes(5000).toString('base64') }]));
  expect(await refusal(pulled({ layers: layer(packed.subarray(0, 3000)) }))).toContain('cannot be decompressed');
  // Some tools omit the padding of the last block, which loses no content.
  const unfilled = tar([{ name: 'f', content: 'whole' }]).subarray(0, 512 + 5);
  expect(read(await pulled({ layers: layer(zlib.gzipSync(unfilled)) }), 'f')).toBe('whole');
  const cut = tar([{ name: 'f', content: 'x'.repeat(5000) }]).subarray(0, 2048);
  expect(await refusal(pulled({ layers: layer(zlib.gzipSync(cut)) }))).toContain('cut off');
  expect(await refusal(ofEntries([{ name: 'odd', type: 'M' }]))).toContain('unknown kind');
  const caches = readdirSync(folder).filter((name) => name.startsWith('cache-'));
  const left = caches.flatMap((name) => readdirSync(path.join(folder, name, 'images')));
  expect(left.filter((name) => !/^sha256-[0-9a-f]{64}(\.lock)?$/.test(name))).toEqual([]);
});

test('bytes of a registry that do not match the digest are refused', async () => {
  const name = `odd-${made++}`;
  const layer = createLayer([{ name: 'f', content: 'right' }]);
  const { digest } = await pushImage(origin, name, { layers: [layer] });
  const blob = sha256(layer.bytes).slice('sha256:'.length);
  const file = path.join(folder, 'registry/docker/registry/v2/blobs/sha256', blob.slice(0, 2), blob, 'data');
  writeFileSync(file, createLayer([{ name: 'f', content: 'wrong' }]).bytes);
  expect(await refusal(pulledBy(name, digest))).toMatch(
    /not what its digest names|larger than|answers|cannot be reached|aborted/,
  );
  expect(await refusal(pulledBy(name, sha256(Buffer.from('none'))))).toContain('does not have the image');
});
