import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import type { MountCredentials } from '../../../domain/sandboxes/object-storage.ts';
import { readStorageTarget, type StorageTarget } from '../../../domain/sandboxes/storage-endpoint.ts';
import { Join } from '../../../runtime/kubernetes/mounts/helper/join.ts';
import { writeS3fsImage } from '../../../runtime/kubernetes/mounts/s3fs-image.ts';
import { credentialsFile, s3fsOptions } from '../../../runtime/mounts/s3fs-options.ts';
import { S3Server, StallingProxy } from '../../support/s3-server.ts';
import { until } from '../../support/until.ts';
import { cacheDir } from '../local-host.ts';

/** Tests the mount helper with Linux namespaces instead of the containers of a mount pod and a sandbox. */
let s3: S3Server;
let root: string;
const started: ChildProcess[] = [];

beforeAll(async () => {
  s3 = await S3Server.start('data');
  root = fs.mkdtempSync(path.join(os.tmpdir(), 's3fs-image-'));
  await writeS3fsImage(cacheDir(), root);
}, 120_000);
afterEach(async () => {
  for (const child of started.splice(0)) await ended(child);
});
afterAll(async () => {
  await s3?.stop();
  fs.rmSync(root, { recursive: true, force: true });
});

async function ended(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const end = once(child, 'exit');
  child.kill('SIGKILL');
  await end;
}

/** The first process of a new mount namespace, after it has printed a line. */
async function contained(script: string, ...words: string[]): Promise<{ pid: number; containerId: string }> {
  const of = ['--mount', '--propagation', 'private', 'sh', '-ec', script, 'sh', ...words];
  const child = spawn('unshare', of, {
    env: { PATH: process.env.PATH, LC_ALL: 'C' },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  started.push(child);
  await once(child.stdout!, 'data');
  // The paths of all control groups contain this text, so it passes as an id.
  return { pid: child.pid!, containerId: '/' };
}

/** A sandbox that has a file and a symbolic link where folders are expected. */
const sandbox = () =>
  contained('mount -t tmpfs none /mnt; mkdir /mnt/a; : >/mnt/file; ln -s a /mnt/link; echo; exec sleep 1000');

async function server(target: StorageTarget, key: Partial<MountCredentials> = {}) {
  const keys = { accessKey: s3.accessKey, secretKey: s3.secretKey, sessionToken: null, ...key };
  const options = ['auto_unmount', 'tmpdir=/buffers', 'dbglevel=err', ...s3fsOptions(target)];
  const words = [`${target.bucket}:${target.path}`, '/bucket', '-f', ...options.flatMap((each) => ['-o', each])];
  const prepare = `mount --bind "$1" "$1"; cd "$1"; mount --rbind /dev dev
    for f in tmp buffers run/platform root; do mount -t tmpfs none $f; done; mkdir root/.aws tmp/old
    printf %s "$2" >root/.aws/credentials; shift 2; pivot_root . tmp/old; echo
    exec /usr/bin/perl /usr/bin/serve-mount "$@"`;
  return contained(prepare, root, credentialsFile(keys), ...words);
}

function target(endpoint = s3.endpoint): StorageTarget {
  const read = readStorageTarget({ uri: 's3://data/', region: 'us-east-1', endpoint });
  if ('reason' in read) throw new Error(read.reason);
  return read;
}

const place = (point = '/mnt/deep/data', isOpened = false) => ({ pod: 'p', uid: 'u', target: point, isOpened });

test('a mount appears in the sandbox only after `bind`, works without the helper, and is gone after `unbind`', async () => {
  s3.write('data', 'old.txt', 'from outside');
  const [inside, serving] = [await sandbox(), await server(target())];
  const join = Join.start(inside, serving, place());
  expect(await join.whenReady()).toEqual({ state: 'ready' });
  const seen = `/proc/${inside.pid}/root/mnt/deep/data`;
  expect(fs.readdirSync(seen)).toEqual([]);
  expect(await join.bind()).toEqual({ state: 'bound' });
  join.end();
  expect(fs.readFileSync(`${seen}/old.txt`, 'utf8')).toBe('from outside');
  fs.writeFileSync(`${seen}/new.txt`, 'from inside');
  expect(s3.read('data', 'new.txt')).toBe('from inside');
  expect(fs.readFileSync('/proc/self/mountinfo', 'utf8')).not.toContain('/mnt/deep/data');

  await Join.unbind(inside, place());
  expect(fs.readdirSync(seen)).toEqual([]);
  // s3fs has ended with its mount.
  await until(() => !fs.existsSync(`/proc/${serving.pid}/exe`));
}, 60_000);

test('s3fs ends with its sandbox', async () => {
  const [inside, serving] = [await sandbox(), await server(target())];
  const join = Join.start(inside, serving, place());
  expect(await join.whenReady()).toEqual({ state: 'ready' });
  expect(await join.bind()).toEqual({ state: 'bound' });
  join.end();
  process.kill(inside.pid, 'SIGKILL');
  await until(() => !fs.existsSync(`/proc/${serving.pid}/exe`));
}, 60_000);

test('a helper that ends before the mount is in place leaves nothing', async () => {
  const [inside, serving] = [await sandbox(), await server(target())];
  const join = Join.start(inside, serving, place());
  expect(await join.whenReady()).toEqual({ state: 'ready' });
  join.end();
  await until(() => !fs.existsSync(`/proc/${serving.pid}/exe`));
  expect(fs.readFileSync(`/proc/${inside.pid}/mountinfo`, 'utf8')).not.toContain('fuse.s3fs');
}, 60_000);

test.each<[string, Partial<MountCredentials>, string]>([
  ['a wrong secret key', { secretKey: 'wrong' }, 'the storage refused the credentials'],
  ['an unknown access key', { accessKey: 'NOBODY' }, 'the storage'],
])(
  'with %s the mount fails with a reason, and s3fs ends',
  async (_, key, reason) => {
    const [inside, serving] = [await sandbox(), await server(target(), key)];
    const state = await Join.start(inside, serving, place()).whenReady();
    expect(state).toEqual({ state: 'failed', reason: expect.stringContaining(reason) });
    await until(() => !fs.existsSync(`/proc/${serving.pid}/exe`));
  },
  60_000,
);

test.each([
  ['a file', '/mnt/file/x', /is not a folder/],
  ['a link', '/mnt/link/x', /symbolic link/],
])(
  'a mount point behind %s is refused',
  async (_, point, reason) => {
    const [inside, serving] = [await sandbox(), await server(target())];
    const state = await Join.start(inside, serving, place(point)).whenReady();
    expect(state).toEqual({ state: 'failed', reason: expect.stringMatching(reason) });
  },
  60_000,
);

test('for an endpoint in an opened range a caller learns only that no answer came within ten seconds', async () => {
  const proxy = await StallingProxy.start(s3.port);
  try {
    proxy.stall();
    for (const endpoint of [proxy.endpoint, 'http://127.0.0.1:1']) {
      const [inside, serving] = [await sandbox(), await server(target(endpoint))];
      const fromMs = performance.now();
      const state = await Join.start(inside, serving, place('/mnt/data', true)).whenReady();
      expect(state).toMatchObject({ state: 'failed', reason: expect.stringContaining('gave no usable answer') });
      const took = performance.now() - fromMs;
      expect(took).toBeGreaterThan(9000);
      expect(took).toBeLessThan(13_000);
    }
  } finally {
    await proxy.stop();
  }
}, 60_000);
