import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import os from 'node:os';
import path from 'node:path';
import type { HostImageState } from '../../runtime/host-driver.ts';
import { baseRecipeDigest, ensureBaseImage } from '../../runtime/images/base-image.ts';
import { BuiltinImages } from '../../runtime/images/builtin-images.ts';
import { imageFolder, rootfsPath, writeUnpackedImage } from '../../runtime/images/image-cache.ts';
import { until } from '../support/until.ts';
import { cacheDir } from './local-host.ts';

/**
 * A separate cache with a small base image and a recipe of any duration.
 * `agent-contexts/code-interpreter-image.test.ts` copies the whole base image and installs packages on it.
 */
let folder: string;
let cache: string;
let base: string;
const opened: BuiltinImages[] = [];

/** The programs and libraries that pip and a shell script need. Each build of the tests copies them. */
const basePaths = [
  ...['bin', 'lib', 'lib64', 'sbin', 'proc', 'sys', 'dev', 'tmp', 'root', 'etc'],
  ...['cat', 'dash', 'python3*', 'setsid', 'sh', 'sleep', 'touch'].map((name) => `usr/bin/${name}`),
  ...['ld-linux*', 'libc.so*', 'libm.so*', 'libz.so*', 'libexpat.so*'].map((name) => `usr/lib/*-linux-gnu/${name}`),
  ...['usr/lib64', 'usr/lib/ld-linux*', 'usr/lib/python3*', 'usr/local'],
];

beforeAll(async () => {
  base = mkdtempSync(path.join(os.tmpdir(), 'small-base-'));
  const { rootfs: whole, config } = await ensureBaseImage({ cacheDir: cacheDir() });
  const script = 'shopt -s nullglob; tree=$1; cd "$2"; shift 2; cp -a --parents $* "$tree"';
  mkdirSync(rootfsPath(base));
  execFileSync('bash', ['-ec', script, 'bash', rootfsPath(base), whole, ...basePaths]);
  await writeUnpackedImage(base, baseRecipeDigest(), config);
}, 300_000);
afterAll(() => rmSync(base, { recursive: true, force: true }));

beforeEach(() => {
  folder = mkdtempSync(path.join(os.tmpdir(), 'builtin-images-'));
  cache = path.join(folder, 'cache');
  const place = imageFolder(cache, baseRecipeDigest());
  mkdirSync(path.dirname(place), { recursive: true });
  symlinkSync(base, place);
});
afterEach(async () => {
  for (const images of opened.splice(0)) await images.close();
  rmSync(folder, { recursive: true, force: true });
});

const never = new AbortController().signal;
const image = 'builtin:tried';

/** @param finish runs in the tree, as root, with the new tree as its root */
function recipe(finish: string, requirements = ''): string {
  const recipeDir = path.join(folder, 'tried');
  mkdirSync(recipeDir, { recursive: true });
  writeFileSync(path.join(recipeDir, 'npm-version'), readFileSync('runtime/images/code-interpreter/npm-version'));
  writeFileSync(path.join(recipeDir, 'requirements.txt'), requirements);
  writeFileSync(path.join(recipeDir, 'finish.sh'), finish);
  return recipeDir;
}

function open(recipeDir: string) {
  const log: string[] = [];
  const states: HostImageState[] = [];
  const line = (fields: object, message: string) => log.push(`${message} ${JSON.stringify(fields)}`);
  const logger = { debug: line, info: line, warn: line, error: line };
  const images = BuiltinImages.of({ cacheDir: cache }, { [image]: recipeDir }, logger);
  images.onChange((state) => states.push(state));
  opened.push(images);
  return { images, states, log };
}

/** Folders of finished and unfinished images, without the base image and locks. */
const folders = () =>
  readdirSync(path.join(cache, 'images')).filter(
    (name) => !name.endsWith('.lock') && name !== path.basename(imageFolder(cache, baseRecipeDigest())),
  );

/** Processes that have the cache's folder as their root or working folder. */
const processesInside = () =>
  readdirSync('/proc').filter((pid) => {
    if (!/^\d+$/.test(pid)) return false;
    try {
      return readdirSync(`/proc/${pid}/root/tmp`).includes('mark-of-the-test');
    } catch {
      return false; // It ended in the meantime.
    }
  });

test('concurrent requests in two processes share one build, which logs its progress', async () => {
  const made = recipe('echo once >> /built; cat /proc/self/status > /status');
  const [first, second] = [open(made), open(made)];
  const asked = [first, first, second].map(({ images }) => images.get(image, never));
  const [one, two, three] = await Promise.all(asked);
  expect(one!.rootfs).toBe(three!.rootfs);
  expect(two!.digest).toBe(one!.digest);
  expect(readFileSync(path.join(one!.rootfs, 'built'), 'utf8')).toBe('once\n');
  expect(first.states.map(({ status }) => status)).toEqual(['building', 'available']);
  const steps = /copying the base image[\s\S]*installing the Python packages[\s\S]*was made/;
  // One process builds, and the other waits for it.
  expect([first, second].map(({ log }) => steps.test(log.join('\n'))).sort()).toEqual([false, true]);
  expect(await first.images.isMade(image)).toBe(true);
  expect(folders()).toHaveLength(1);
  // Installers of packages need no more: no mounts, no devices, and no access outside of the tree.
  const status = readFileSync(path.join(one!.rootfs, 'status'), 'utf8');
  expect(status).toMatch(/^CapEff:\t0{14}fb$/m);
  expect(status).toMatch(/^CapBnd:\t0{14}fb$/m);
  expect(status).toMatch(/^NoNewPrivs:\t1$/m);
  expect(readdirSync(path.join(one!.rootfs, 'tmp'))).toEqual([]);
  expect(readdirSync(path.join(one!.rootfs, 'proc'))).toEqual([]);
}, 300_000);

test('a failure reaches all waiting callers, names the step, and leaves nothing unfinished', async () => {
  const { images, states, log } = open(recipe('echo the reason >&2; exit 7'));
  const asked = await Promise.allSettled([images.get(image, never), images.get(image, never)]);
  for (const each of asked) {
    expect(each).toMatchObject({
      status: 'rejected',
      reason: { message: 'The image of the template tried could not be made (installing the Python packages)' },
    });
  }
  expect(states.at(-1)).toMatchObject({ status: 'failed', message: expect.stringContaining('could not be made') });
  expect(JSON.stringify(states)).not.toContain('the reason');
  expect(log.at(-1)).toContain('could not be made');
  expect(folders()).toEqual([]);
}, 300_000);

test('npm from a registry with other bytes than those of the recipe fails the build', async () => {
  const registry = http.createServer((_request, reply) => reply.end('other bytes')).listen(0, '127.0.0.1');
  await once(registry, 'listening');
  process.env.npm_config_registry = `http://127.0.0.1:${(registry.address() as AddressInfo).port}/`;
  try {
    await expect(open(recipe('true')).images.get(image, never)).rejects.toMatchObject({
      message: 'The image of the template tried could not be made (installing npm)',
      cause: { message: expect.stringMatching(/\/npm\/-\/npm-[\d.]+\.tgz has other bytes than sha512-/) },
    });
    expect(folders()).toEqual([]);
  } finally {
    delete process.env.npm_config_registry;
    registry.close();
  }
}, 300_000);

test('a caller that stops waiting does not end the build; the end of the host ends it with all its processes', async () => {
  const wait = 'touch /tmp/mark-of-the-test; (setsid sleep 1000 >/dev/null 2>&1 &); sleep 1000; true';
  const { images, states } = open(recipe(wait));
  const leaving = new AbortController();
  const left = expect(images.get(image, leaving.signal)).rejects.toThrow('left');
  const stays = images.get(image, never);
  stays.catch(() => {});
  await until(() => processesInside().length >= 2, 240_000);
  leaving.abort(new Error('left'));
  await left;
  expect(processesInside().length).toBeGreaterThanOrEqual(2);
  await images.close();
  await expect(stays).rejects.toThrow('aborted');
  expect(processesInside()).toEqual([]);
  expect(folders()).toEqual([]);
  // A cancelled build is not a failure of the image.
  expect(states.map(({ status }) => status)).toEqual(['building']);
  await expect(images.get(image, never)).rejects.toThrow('aborted');
}, 300_000);

test('the leftovers of a killed build are removed by the next one', async () => {
  const made = recipe('true');
  const first = open(made);
  const begun = first.images.get(image, never);
  begun.catch(() => {});
  // The draft has the name of the image's folder.
  await until(() => folders().some((name) => name.endsWith('.draft')));
  const draft = path.join(cache, 'images', folders().find((name) => name.endsWith('.draft'))!);
  await first.images.close();
  expect(folders()).toEqual([]);
  mkdirSync(path.join(rootfsPath(draft), 'half'), { recursive: true });
  chmodSync(path.join(rootfsPath(draft), 'half'), 0);
  const again = await open(made).images.get(image, never);
  expect(readdirSync(again.rootfs)).not.toContain('half');
  expect(folders()).toEqual([path.basename(draft, '.draft')]);
}, 300_000);
