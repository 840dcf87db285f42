import { existsSync } from 'node:fs';
import { mkdir, rename, rm } from 'node:fs/promises';
import path from 'node:path';
import { z } from 'zod';
import { renameDurably, writeFileDurably } from '../../platform/config/durable-file.ts';
import { DamagedFileError, readDocument } from '../../platform/config/readable-document.ts';
import { runCommand } from '../process/command.ts';
import { withFileLock } from '../process/file-lock.ts';

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
});

const configFile = 'image.json';
const rootfsFolder = 'rootfs';

/** The folder of the unpacked image of `digest`. */
export function imageFolder(cacheDir: string, digest: string): string {
  return path.join(cacheDir, 'images', digest.replace(':', '-'));
}

/** The tree of the image that is being unpacked in `folder`. */
export const rootfsOf = (folder: string) => path.join(folder, rootfsFolder);

/** Marks the tree in `folder` as complete. Afterwards the folder must be renamed to its final name. */
export async function writeUnpackedImage(folder: string, digest: string, config: ImageConfig): Promise<void> {
  const fingerprint = await fingerprintOf(rootfsOf(folder));
  await writeFileDurably(path.join(folder, configFile), JSON.stringify({ digest, config, fingerprint }));
}

/** Whether the tree is as it was made, as far as that shows without reading the files. */
export async function isImageWhole({ rootfs, fingerprint }: UnpackedImage): Promise<boolean> {
  return fingerprint === (await fingerprintOf(rootfs));
}

async function fingerprintOf(rootfs: string): Promise<string> {
  const printed = (size: string) => String.raw`%P\0${size}\0%m\0%U\0%G\0%T@\0%l\n`;
  const list = `find "$1" -type d -printf '${printed('')}' -o -printf '${printed('%s')}' | LC_ALL=C sort | sha256sum`;
  return `without-directory-sizes:${(await runCommand('sh', ['-c', list, 'sh', rootfs])).slice(0, 64)}`;
}

/** The image in `folder`; null when there is none, or when its document is damaged and the image must be made again. */
export async function readUnpackedImage(folder: string): Promise<UnpackedImage | null> {
  try {
    const document = readDocument(path.join(folder, configFile), documentSchema);
    return document && existsSync(rootfsOf(folder)) ? { ...document, rootfs: rootfsOf(folder) } : null;
  } catch (error) {
    if (error instanceof DamagedFileError) return null;
    throw error;
  }
}

/** The part of an OCI image configuration that matters to sandboxes. */
export function imageConfigOf(document: { config?: Record<string, unknown> }): ImageConfig {
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
export const ociConfigOf = ({ env, workingDir, user, entrypoint, cmd }: ImageConfig) => ({
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
 * @param make fills the draft's tree (`rootfsOf(draft)`) and returns the configuration of the image's processes
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
