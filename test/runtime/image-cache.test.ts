import { execFileSync } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterAll, afterEach, beforeEach, expect, test } from '@jest/globals';
import {
  ImageCache,
  imageFolder,
  isImageIntact,
  makeImageOnce,
  readUnpackedImage,
  rootfsPath,
} from '../../runtime/images/image-cache.ts';

/** The unpacked images of a machine: which ones are kept, removed and unpacked again. */
const root = mkdtempSync(path.join(os.tmpdir(), 'image-cache-'));
let cacheDir: string;
const logged: string[] = [];
const log = (_fields: object, message: string) => logged.push(message);
const logger = { info: log, warn: log, error: log };
const megabyte = 1024 * 1024;

beforeEach(() => {
  cacheDir = mkdtempSync(path.join(root, 'cache-'));
});
afterEach(() => {
  logged.length = 0;
});
afterAll(() => rmSync(root, { recursive: true }));

const createDigest = (letter: string) => `sha256:${letter.repeat(64)}`;
let makings = 0;

/** An image of two megabytes. */
const image = (letter: string) => () =>
  makeImageOnce({
    cacheDir,
    digest: createDigest(letter),
    make: async (draft) => {
      makings += 1;
      mkdirSync(rootfsPath(draft));
      writeFileSync(path.join(rootfsPath(draft), 'file'), letter.repeat(2 * megabyte));
      return { env: {}, workingDir: null, user: null, entrypoint: [], cmd: [] };
    },
  });

const isThere = (letter: string) => existsSync(imageFolder(cacheDir, createDigest(letter)));
/** Sets the last use of an image to so many hours ago. */
const age = (letter: string, hours: number) => {
  const at = Date.now() / 1000 - hours * 3600;
  utimesSync(imageFolder(cacheDir, createDigest(letter)), at, at);
};

async function fill(cache: ImageCache, letters: string): Promise<void> {
  for (const [at, letter] of [...letters].entries()) {
    await cache.get(image(letter));
    await cache.settled();
    if (isThere(letter)) age(letter, letters.length - at);
  }
}

test('beyond the budget the least recently used images are removed', async () => {
  await fill(new ImageCache({ cacheDir, budgetBytes: null, logger }), 'abc');
  const cache = new ImageCache({ cacheDir, budgetBytes: 5 * megabyte, logger });
  await cache.get(image('a'));
  await cache.get(image('d'));
  await cache.settled();
  expect([...'abcd'].filter(isThere)).toEqual(['a', 'd']);
  expect(logged).toContain('an unpacked image was removed because it was not used recently');
});

test('an image below the folder of a sandbox stays as long as the folder exists, also for other processes', async () => {
  const sandbox = mkdtempSync(path.join(root, 'sandbox-'));
  const one = new ImageCache({ cacheDir, budgetBytes: null, logger });
  await one.keepFor(await one.get(image('a')), sandbox);
  age('a', 100);
  const other = new ImageCache({ cacheDir, budgetBytes: 3 * megabyte, logger });
  await fill(other, 'bc');
  expect([...'abc'].filter(isThere)).toEqual(['a']);
  rmSync(sandbox, { recursive: true });
  const first = new ImageCache({ cacheDir, budgetBytes: 3 * megabyte, logger });
  await first.get(image('d'));
  await first.settled();
  const last = new ImageCache({ cacheDir, budgetBytes: 3 * megabyte, logger });
  await last.get(image('d'));
  await last.settled();
  expect([...'abcd'].filter(isThere)).toEqual(['d']);
});

test('a changed tree is detected and made again; sandboxes that run on it keep it', async () => {
  const before = await new ImageCache({ cacheDir, budgetBytes: null, logger }).get(image('a'));
  const { ino } = statSync(before.rootfs);
  for (const damage of [
    (file: string) => writeFileSync(file, 'short'),
    (file: string) => rmSync(file),
    (file: string) => writeFileSync(`${file}-more`, ''),
  ]) {
    damage(path.join(before.rootfs, 'file'));
    const [count, cache] = [makings, new ImageCache({ cacheDir, budgetBytes: null, logger })];
    const after = await cache.get(image('a'));
    expect([makings, readFileSync(path.join(after.rootfs, 'file'), 'utf8')]).toEqual([
      count + 1,
      'a'.repeat(2 * megabyte),
    ]);
    await cache.get(image('a'));
    expect(makings).toBe(count + 1);
  }
  expect(logged.filter((message) => message.includes('damaged'))).toHaveLength(3);
  const aside = readdirSync(path.join(cacheDir, 'images')).filter((name) => name.includes('.damaged-'));
  expect(aside.map((name) => statSync(path.join(cacheDir, 'images', name, 'rootfs')).ino)).toContain(ino);
});

test('a copy on another file system is whole', async () => {
  const files = Array.from({ length: 100 }, (_, index) => `a-file-with-a-long-name-${index}`);
  const made = await makeImageOnce({
    cacheDir,
    digest: createDigest('e'),
    make: async (draft) => {
      mkdirSync(path.join(rootfsPath(draft), 'folder'), { recursive: true });
      for (const file of files) writeFileSync(path.join(rootfsPath(draft), 'folder', file), 'text');
      return { env: {}, workingDir: null, user: null, entrypoint: [], cmd: [] };
    },
  });
  // The sizes of its folders are others there.
  const memory = mkdtempSync('/dev/shm/image-cache-');
  try {
    execFileSync('cp', ['--archive', '--no-target-directory', path.dirname(made.rootfs), memory]);
    const copy = await readUnpackedImage(memory);
    expect(statSync(path.join(copy!.rootfs, 'folder')).size).not.toBe(statSync(path.join(made.rootfs, 'folder')).size);
    expect(await isImageIntact(copy!)).toBe(true);
    writeFileSync(path.join(copy!.rootfs, 'folder', files[0]!), 'longer text');
    expect(await isImageIntact(copy!)).toBe(false);
  } finally {
    rmSync(memory, { recursive: true });
  }
});

test('a request for an image during its removal fails with an error, and the next request makes it again', async () => {
  const cache = new ImageCache({ cacheDir, budgetBytes: null, logger });
  const found = await cache.get(image('a'));
  rmSync(imageFolder(cacheDir, createDigest('a')), { recursive: true });
  await expect(cache.keepFor(found, root)).rejects.toThrow('removed from the cache');
  const again = await cache.get(image('a'));
  await cache.keepFor(again, root);
});
