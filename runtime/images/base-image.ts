import { mkdir, rename, rm } from 'node:fs/promises';
import path from 'node:path';
import { CommandError, runCommand } from '../process/command.ts';
import { withFileLock } from '../process/file-lock.ts';
import { baseRecipe, baseRecipeDigest } from './base-recipe.ts';
import { ensureImage, imageFolder } from './image-store.ts';
import { readUnpackedImage, rootfsOf, type UnpackedImage, writeUnpackedImage } from './unpacked-image.ts';

export interface BaseImageProgress {
  /** One line for people: what is being done now. */
  message: string;
  /** 0 to 1. */
  fraction: number;
}

export interface BaseImageOptions {
  cacheDir: string;
  /** Pulled instead of made from Debian packages when given (`PLATFORM_BASE_IMAGE`). */
  reference?: string;
  registryInsecureHttp?: boolean;
  onProgress?: (progress: BaseImageProgress) => void;
  signal?: AbortSignal;
}

/** What mmdebstrap says as it goes, with about how much of the work is then behind it. */
const stages: [RegExp, string, number][] = [
  [/running apt-get update/, 'reading package lists', 0.05],
  [/downloading packages/, 'downloading packages', 0.15],
  [/extracting archives/, 'unpacking the essential packages', 0.35],
  [/installing essential/, 'installing the essential packages', 0.45],
  [/installing remaining/, 'installing the other packages', 0.6],
  [/running --customize-hook/, 'adding the user', 0.95],
];

/**
 * The base image, pulled or made on first use and then taken from the cache. Safe to call from many processes at once:
 * one makes it, the others wait. Needs root.
 * @throws {Error} with the maker's own words when it fails.
 */
export async function ensureBaseImage(options: BaseImageOptions): Promise<UnpackedImage> {
  const { cacheDir, reference, registryInsecureHttp, signal } = options;
  if (reference) return ensureImage({ cacheDir, reference, registryInsecureHttp, signal });
  const digest = baseRecipeDigest();
  const folder = imageFolder(cacheDir, digest);
  const ready = await readUnpackedImage(folder);
  if (ready) return ready;
  const progress = (message: string, fraction: number) => options.onProgress?.({ message, fraction });
  return withFileLock(
    `${folder}.lock`,
    async () => {
      const made = await readUnpackedImage(folder);
      if (made) return made;
      const draft = `${folder}.draft`;
      await rm(draft, { recursive: true, force: true });
      await mkdir(draft, { recursive: true });
      await makeRootfs(rootfsOf(draft), progress, signal);
      await writeUnpackedImage(draft, digest, {
        env: baseRecipe.env,
        workingDir: null,
        user: null,
        entrypoint: [],
        cmd: [],
      });
      await runCommand('sync', ['-f', draft]);
      await rename(draft, folder);
      progress('base image is ready', 1);
      return (await readUnpackedImage(folder))!;
    },
    { onWait: () => progress('waiting for another process that makes the base image', 0), signal },
  );
}

async function makeRootfs(
  rootfs: string,
  progress: (message: string, fraction: number) => void,
  signal: AbortSignal | undefined,
): Promise<void> {
  const args = ['--mode=root', '--variant=minbase', '--format=directory', `--include=${baseRecipe.packages.join(',')}`];
  for (const excluded of baseRecipe.excludedPaths) args.push(`--dpkgopt=path-exclude=${excluded}`);
  for (const included of baseRecipe.includedPaths) args.push(`--dpkgopt=path-include=${included}`);
  for (const command of baseRecipe.customize) args.push(`--customize-hook=${command}`);
  args.push(baseRecipe.suite, rootfs);
  progress('starting mmdebstrap', 0);
  try {
    await runCommand('mmdebstrap', args, {
      signal,
      onLine: (line) => {
        const stage = stages.find(([pattern]) => pattern.test(line));
        if (stage) progress(stage[1], stage[2]);
      },
    });
  } catch (error) {
    await rm(path.dirname(rootfs), { recursive: true, force: true });
    if (!(error instanceof CommandError)) throw error;
    throw new Error(`The base image could not be made from Debian packages. ${error.message}`, { cause: error });
  }
}
