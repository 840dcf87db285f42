import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, readdir, readlink, rename, rm, stat, symlink, utimes } from 'node:fs/promises';
import path from 'node:path';
import { runCommand } from '../process/command.ts';
import { withFileLock } from '../process/file-lock.ts';
import { imageFolder, isImageWhole, readUnpackedImage, type UnpackedImage } from './unpacked-image.ts';

interface Logger {
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
}

/** A draft that was not modified for this long belongs to a process that was killed. */
const forgottenMs = 24 * 3600 * 1000;
const noteEveryMs = 60_000;

/**
 * The unpacked images of this machine. Several copies may share them. They have a budget of disk space. Above it, the
 * least recently used images are removed, but never an image that a sandbox or pool member uses, including paused ones.
 */
export class ImageCache {
  readonly #folder: string;
  readonly #cacheDir: string;
  readonly #budgetBytes: number | null;
  readonly #logger: Logger;
  /** Digests whose trees were checked in this process, with the time when their use was last noted. */
  readonly #known = new Map<string, number>();
  #trimming: Promise<void> = Promise.resolve();

  /** @param options.budgetBytes null: images are never removed */
  constructor(options: { cacheDir: string; budgetBytes: number | null; logger: Logger }) {
    this.#cacheDir = options.cacheDir;
    this.#folder = path.join(options.cacheDir, 'images');
    this.#budgetBytes = options.budgetBytes;
    this.#logger = options.logger;
  }

  /**
   * Gets an image, and makes it again if its tree differs from the unpacked one. A tree is checked once per process.
   * @param make gets the image from the cache or makes it, as `ensureImage` and similar functions do
   */
  async get(make: () => Promise<UnpackedImage>): Promise<UnpackedImage> {
    let image = await make();
    if (!this.#known.has(image.digest)) {
      if (!(await isImageWhole(image))) {
        this.#logger.error({ digest: image.digest }, 'an unpacked image is damaged; making it again');
        await this.#setAside(image);
        image = await make();
      }
      this.#trimSoon();
    }
    await this.#noteUse(image);
    return image;
  }

  /**
   * Keeps an image while the folder exists.
   * @throws {Error} when the image was removed meanwhile
   */
  async keepFor(image: UnpackedImage, folder: string): Promise<void> {
    await noteImageUser(path.dirname(image.rootfs), folder);
    if (!existsSync(image.rootfs)) throw new Error('the image has just been removed from the cache');
  }

  /** Waits until running removals have ended. */
  async settled(): Promise<void> {
    await this.#trimming;
  }

  async #noteUse(image: UnpackedImage): Promise<void> {
    const now = Date.now();
    if (now - (this.#known.get(image.digest) ?? 0) < noteEveryMs) return;
    this.#known.set(image.digest, now);
    await utimes(path.dirname(image.rootfs), now / 1000, now / 1000).catch(() => {});
  }

  /** The tree stays on the disk under another name, because sandboxes may run on it. */
  async #setAside({ digest }: UnpackedImage): Promise<void> {
    const folder = imageFolder(this.#cacheDir, digest);
    await withFileLock(`${folder}.lock`, async () => {
      const present = await readUnpackedImage(folder);
      if (present && !(await isImageWhole(present))) await rename(folder, `${folder}.damaged-${Date.now()}`);
    });
  }

  #trimSoon(): void {
    if (this.#budgetBytes === null) return;
    this.#trimming = this.#trimming
      .then(() => this.#trim(this.#budgetBytes!))
      .catch((error) => this.#logger.warn({ err: error }, 'the cache of images could not be trimmed'));
  }

  async #trim(budgetBytes: number): Promise<void> {
    const entries: { folder: string; usedMs: number; bytes: number }[] = [];
    for (const name of await readdir(this.#folder)) {
      const folder = path.join(this.#folder, name);
      const isDraft = name.endsWith('.draft') || name.endsWith('.gone');
      if (!isDraft && !/^sha256-[0-9a-f]{64}(\.damaged-\d+)?$/.test(name)) continue;
      const { mtimeMs } = await stat(folder);
      if (!isDraft) entries.push({ folder, usedMs: mtimeMs, bytes: await sizeOf(folder) });
      else if (Date.now() - mtimeMs > forgottenMs) await rm(folder, { recursive: true, force: true });
    }
    let total = entries.reduce((sum, { bytes }) => sum + bytes, 0);
    for (const { folder, bytes } of entries.sort((a, b) => a.usedMs - b.usedMs)) {
      if (total <= budgetBytes) return;
      if (await this.#evict(folder)) total -= bytes;
    }
  }

  /** @returns false when something uses the image */
  async #evict(folder: string): Promise<boolean> {
    const image = folder.replace(/\.damaged-\d+$/, '');
    if (await hasImageUser(image)) return false;
    return withFileLock(`${image}.lock`, async () => {
      const gone = `${folder}.gone`;
      await rename(folder, gone);
      // A user of an image first notes its use and then checks that the image exists. Here the order is reversed, so at
      // least one of the two notices the other.
      if (await hasImageUser(image)) {
        await rename(gone, folder);
        return false;
      }
      this.#known.delete(path.basename(image).replace('-', ':'));
      this.#logger.info(
        { image: path.basename(folder) },
        'an unpacked image was removed because it was not used recently',
      );
      await rm(gone, { recursive: true, force: true });
      if (folder === image) await forgetImageUsers(image);
      return true;
    });
  }
}

/** The size on the disk. A file with several names counts once. */
async function sizeOf(folder: string): Promise<number> {
  return Number((await runCommand('du', ['-s', '-B1', folder])).split('\t', 1)[0]);
}

/**
 * Records the users of an image: for each folder of a sandbox or pool member, of every copy that shares the cache,
 * there is a link to it beside the image. A link is valid while its folder exists, so links need no explicit removal.
 */
const usersOf = (imageFolder: string) => `${imageFolder}.users`;

/** Call this after the folder exists and before its container runs. @param folder absolute */
export async function noteImageUser(imageFolder: string, folder: string): Promise<void> {
  const link = path.join(usersOf(imageFolder), createHash('sha256').update(folder).digest('hex').slice(0, 32));
  await mkdir(usersOf(imageFolder), { recursive: true });
  await symlink(folder, link).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'EEXIST') throw error;
  });
}

/** Whether a folder uses the image. Removes the links of missing folders. */
async function hasImageUser(imageFolder: string): Promise<boolean> {
  const links = await readdir(usersOf(imageFolder)).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'ENOENT') throw error;
    return [];
  });
  let found = false;
  for (const name of links) {
    const link = path.join(usersOf(imageFolder), name);
    if (existsSync(await readlink(link))) found = true;
    else await rm(link, { force: true });
  }
  return found;
}

async function forgetImageUsers(imageFolder: string): Promise<void> {
  await rm(usersOf(imageFolder), { recursive: true, force: true });
}
