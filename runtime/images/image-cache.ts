import { existsSync } from 'node:fs';
import { readdir, rename, rm, stat, utimes } from 'node:fs/promises';
import path from 'node:path';
import { runCommand } from '../process/command.ts';
import { withFileLock } from '../process/file-lock.ts';
import { forgetImageUsers, hasImageUser, noteImageUser } from './image-users.ts';
import { imageFolder, isImageWhole, readUnpackedImage, type UnpackedImage } from './unpacked-image.ts';

interface Logger {
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
}

/** A draft that nobody has touched for so long is of a process that was killed. */
const forgottenMs = 24 * 3600 * 1000;
const noteEveryMs = 60_000;

/**
 * The unpacked images of this machine, which several copies may share. They have a budget of disk space; beyond it those
 * that were used least lately go, but never one that a sandbox or pool member lies on, paused ones included.
 */
export class ImageCache {
  readonly #folder: string;
  readonly #cacheDir: string;
  readonly #budgetBytes: number | null;
  readonly #logger: Logger;
  /** Digests whose trees were looked at in this process, and when their use was noted last. */
  readonly #known = new Map<string, number>();
  #trimming: Promise<void> = Promise.resolve();

  /** @param options.budgetBytes null: images stay for ever */
  constructor(options: { cacheDir: string; budgetBytes: number | null; logger: Logger }) {
    this.#cacheDir = options.cacheDir;
    this.#folder = path.join(options.cacheDir, 'images');
    this.#budgetBytes = options.budgetBytes;
    this.#logger = options.logger;
  }

  /**
   * Gets an image, and makes it again where its tree is not as it was unpacked. A tree is looked at once in a process.
   * @param make as `ensureImage` and its kin do: from the cache, else anew
   */
  async get(make: () => Promise<UnpackedImage>): Promise<UnpackedImage> {
    let image = await make();
    if (!this.#known.has(image.digest)) {
      if (!(await isImageWhole(image))) {
        this.#logger.error({ digest: image.digest }, 'an unpacked image is damaged; it is made again');
        await this.#setAside(image);
        image = await make();
      }
      this.#trimSoon();
    }
    await this.#noteUse(image);
    return image;
  }

  /**
   * Keeps an image for as long as the folder is there.
   * @throws {Error} it has gone meanwhile
   */
  async keepFor(image: UnpackedImage, folder: string): Promise<void> {
    await noteImageUser(path.dirname(image.rootfs), folder);
    if (!existsSync(image.rootfs)) throw new Error('the image has just been removed from the cache');
  }

  /** Waits for what is being removed. */
  async settled(): Promise<void> {
    await this.#trimming;
  }

  async #noteUse(image: UnpackedImage): Promise<void> {
    const now = Date.now();
    if (now - (this.#known.get(image.digest) ?? 0) < noteEveryMs) return;
    this.#known.set(image.digest, now);
    await utimes(path.dirname(image.rootfs), now / 1000, now / 1000).catch(() => {});
  }

  /** Sandboxes may run on the tree, so it stays on the disk under another name. */
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

  /** @returns false: something lies on it */
  async #evict(folder: string): Promise<boolean> {
    const image = folder.replace(/\.damaged-\d+$/, '');
    if (await hasImageUser(image)) return false;
    return withFileLock(`${image}.lock`, async () => {
      const gone = `${folder}.gone`;
      await rename(folder, gone);
      // Who notes a use looks whether the image is there afterwards; here it is the other way round, so one of both sees.
      if (await hasImageUser(image)) {
        await rename(gone, folder);
        return false;
      }
      this.#known.delete(path.basename(image).replace('-', ':'));
      this.#logger.info({ image: path.basename(folder) }, 'an unpacked image that was not used lately is removed');
      await rm(gone, { recursive: true, force: true });
      if (folder === image) await forgetImageUsers(image);
      return true;
    });
  }
}

/** On the disk, a file of several names once. */
async function sizeOf(folder: string): Promise<number> {
  return Number((await runCommand('du', ['-s', '-B1', folder])).split('\t', 1)[0]);
}
