import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, readdir, readlink, rename, rm, stat, symlink, utimes } from 'node:fs/promises';
import path from 'node:path';
import { z } from 'zod';
import { renameDurably, writeFileDurably } from '../../platform/config/durable-file.ts';
import { DamagedFileError, readDocument } from '../../platform/config/readable-document.ts';
import { runCommand } from '../process/command.ts';
import { withFileLock } from '../process/file-lock.ts';

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
      if (!(await isImageIntact(image))) {
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
      if (present && !(await isImageIntact(present))) await rename(folder, `${folder}.damaged-${Date.now()}`);
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
      if (!isDraft) entries.push({ folder, usedMs: mtimeMs, bytes: await readSize(folder) });
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

/** The size of the image in `folder`, also of one that was set aside. */
async function readSize(folder: string): Promise<number> {
  return (await readUnpackedImage(folder))?.bytes ?? (await measureSize(folder));
}

/** The size on the disk. A file with several names counts once. */
async function measureSize(folder: string): Promise<number> {
  return Number((await runCommand('du', ['-s', '-B1', folder])).split('\t', 1)[0]);
}

/**
 * Records the users of an image: for each folder of a sandbox or pool member, of every copy that shares the cache,
 * there is a link to it beside the image. A link is valid while its folder exists, so links need no explicit removal.
 */
const usersFolder = (imageFolder: string) => `${imageFolder}.users`;

/** Call this after the folder exists and before its container runs. @param folder absolute */
export async function noteImageUser(imageFolder: string, folder: string): Promise<void> {
  const link = path.join(usersFolder(imageFolder), createHash('sha256').update(folder).digest('hex').slice(0, 32));
  await mkdir(usersFolder(imageFolder), { recursive: true });
  await symlink(folder, link).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'EEXIST') throw error;
  });
}

/** Whether a folder uses the image. Removes the links of missing folders. */
async function hasImageUser(imageFolder: string): Promise<boolean> {
  const links = await readdir(usersFolder(imageFolder)).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'ENOENT') throw error;
    return [];
  });
  let found = false;
  for (const name of links) {
    const link = path.join(usersFolder(imageFolder), name);
    if (existsSync(await readlink(link))) found = true;
    else await rm(link, { force: true });
  }
  return found;
}

async function forgetImageUsers(imageFolder: string): Promise<void> {
  await rm(usersFolder(imageFolder), { recursive: true, force: true });
}

/** The image's configuration of the processes that are started in it. */
export interface ImageConfig {
  env: Record<string, string>;
  workingDir: string | null;
  /** `name`, `uid`, `name:gid` or `uid:gid`. */
  user: string | null;
  entrypoint: string[];
  cmd: string[];
}

/** An image as a tree of files with the image's owners, ready to be the lower layer of sandboxes. */
export interface UnpackedImage {
  /** `sha256:…` of its manifest or its recipe. */
  digest: string;
  /** The tree. It is never written to after it is complete. */
  rootfs: string;
  config: ImageConfig;
  /**
   * A fingerprint of the names, sizes, owners, modes and times in the original tree, without the sizes of directories,
   * which differ between file systems.
   */
  fingerprint: string;
  /** On the disk. Measured once, because it takes seconds for many files. */
  bytes: number;
}

const documentSchema = z.object({
  digest: z.string(),
  config: z.object({
    env: z.record(z.string(), z.string()),
    workingDir: z.string().nullable(),
    user: z.string().nullable(),
    entrypoint: z.array(z.string()),
    cmd: z.array(z.string()),
  }),
  fingerprint: z.string(),
  bytes: z.int().nonnegative(),
});

const configFile = 'image.json';
const rootfsFolder = 'rootfs';

/** The folder of the unpacked image of `digest`. */
export function imageFolder(cacheDir: string, digest: string): string {
  return path.join(cacheDir, 'images', digest.replace(':', '-'));
}

/** The tree of the image that is being unpacked in `folder`. */
export const rootfsPath = (folder: string) => path.join(folder, rootfsFolder);

/** Marks the tree in `folder` as complete. Afterwards the folder must be renamed to its final name. */
export async function writeUnpackedImage(folder: string, digest: string, config: ImageConfig): Promise<void> {
  const [fingerprint, bytes] = await Promise.all([computeFingerprint(rootfsPath(folder)), measureSize(folder)]);
  await writeFileDurably(path.join(folder, configFile), JSON.stringify({ digest, config, fingerprint, bytes }));
}

/** Whether the tree is as it was made, as far as that shows without reading the files. */
export async function isImageIntact({ rootfs, fingerprint }: UnpackedImage): Promise<boolean> {
  return fingerprint === (await computeFingerprint(rootfs));
}

async function computeFingerprint(rootfs: string): Promise<string> {
  const printed = (size: string) => String.raw`%P\0${size}\0%m\0%U\0%G\0%T@\0%l\n`;
  const list = `find "$1" -type d -printf '${printed('')}' -o -printf '${printed('%s')}' | LC_ALL=C sort | sha256sum`;
  return `without-directory-sizes:${(await runCommand('sh', ['-c', list, 'sh', rootfs])).slice(0, 64)}`;
}

/** The image in `folder`; null when there is none, or when its document is damaged and the image must be made again. */
export async function readUnpackedImage(folder: string): Promise<UnpackedImage | null> {
  try {
    const document = readDocument(path.join(folder, configFile), documentSchema);
    return document && existsSync(rootfsPath(folder)) ? { ...document, rootfs: rootfsPath(folder) } : null;
  } catch (error) {
    if (error instanceof DamagedFileError) return null;
    throw error;
  }
}

/** The part of an OCI image configuration that matters to sandboxes. */
export function toImageConfig(document: { config?: Record<string, unknown> }): ImageConfig {
  const { Env, WorkingDir, User, Entrypoint, Cmd } = document.config ?? {};
  const words = (value: unknown) => (Array.isArray(value) ? value.map(String) : []);
  const env: Record<string, string> = {};
  for (const pair of words(Env)) {
    const at = pair.indexOf('=');
    if (at > 0) env[pair.slice(0, at)] = pair.slice(at + 1);
  }
  return {
    env,
    workingDir: typeof WorkingDir === 'string' && WorkingDir !== '' ? WorkingDir : null,
    user: typeof User === 'string' && User !== '' ? User : null,
    entrypoint: words(Entrypoint),
    cmd: words(Cmd),
  };
}

/** The `config` of an OCI image configuration that says so. */
export const toOciConfig = ({ env, workingDir, user, entrypoint, cmd }: ImageConfig) => ({
  Env: Object.entries(env).map(([name, value]) => `${name}=${value}`),
  ...(workingDir !== null && { WorkingDir: workingDir }),
  ...(user !== null && { User: user }),
  ...(entrypoint.length > 0 && { Entrypoint: entrypoint }),
  ...(cmd.length > 0 && { Cmd: cmd }),
});

/** The progress of making an image. */
export interface ImageProgress {
  /** The current step, in one line for people. */
  message: string;
  /** 0 to 1. */
  fraction: number;
}

/**
 * The image of `digest` from the cache. Makes it there if it is missing. Many processes may call this at the same time:
 * one makes the image, and the others wait. Half-made images are never visible, and are removed after a failure.
 * @param make fills the draft's tree (`rootfsPath(draft)`) and returns the configuration of the image's processes
 * @throws errors of `make`
 */
export async function makeImageOnce(options: {
  cacheDir: string;
  digest: string;
  make: (draft: string) => Promise<ImageConfig>;
  /** Called when another process is making the image. */
  onWait?: () => void;
  signal?: AbortSignal;
}): Promise<UnpackedImage> {
  const { digest, make, onWait, signal } = options;
  const folder = imageFolder(options.cacheDir, digest);
  const ready = await readUnpackedImage(folder);
  if (ready) return ready;
  return withFileLock(
    `${folder}.lock`,
    async () => {
      const made = await readUnpackedImage(folder);
      if (made) return made;
      const draft = `${folder}.draft`;
      await removeDraft(draft);
      await mkdir(draft, { recursive: true });
      try {
        await writeUnpackedImage(draft, digest, await make(draft));
        await runCommand('sync', ['-f', draft]);
        await setAsideIfThere(folder);
        await renameDurably(draft, folder);
      } catch (error) {
        await removeDraft(draft);
        throw error;
      }
      return (await readUnpackedImage(folder))!;
    },
    { onWait, signal },
  );
}

/** The processes that wrote there are ending, and may still write files while the folder is emptied. */
const removeDraft = (draft: string) => rm(draft, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 });

/** Moves an unreadable image aside. Sandboxes may run on its tree, so it stays on the disk under another name. */
async function setAsideIfThere(folder: string): Promise<void> {
  if (existsSync(folder)) await rename(folder, `${folder}.damaged-${Date.now()}`);
}
