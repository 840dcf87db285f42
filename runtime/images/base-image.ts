import { CommandError, runCommand } from '../process/command.ts';
import { baseRecipe, baseRecipeDigest } from './base-recipe.ts';
import { ensureImage } from './image-store.ts';
import { type ImageProgress, makeImageOnce } from './make-once.ts';
import { imageFolder, readUnpackedImage, rootfsOf, type UnpackedImage } from './unpacked-image.ts';

export interface BaseImageOptions {
  cacheDir: string;
  /** Pulled instead of made from Debian packages, if set (`PLATFORM_BASE_IMAGE`). */
  reference?: string;
  registryInsecureHttp?: boolean;
  onProgress?: (progress: ImageProgress) => void;
  signal?: AbortSignal;
}

/** Lines of mmdebstrap's output, with the share of the work that is then done. */
const stages: [RegExp, string, number][] = [
  [/running apt-get update/, 'reading package lists', 0.05],
  [/downloading packages/, 'downloading packages', 0.15],
  [/extracting archives/, 'unpacking the essential packages', 0.35],
  [/installing essential/, 'installing the essential packages', 0.45],
  [/installing remaining/, 'installing the other packages', 0.6],
  [/running --customize-hook/, 'adding the user', 0.95],
];

/**
 * The base image: pulled or made on first use, afterwards taken from the cache. Safe to call from many processes at
 * once: one makes it, the others wait. Needs root.
 * @throws {Error} with the message of the program that failed
 */
export async function ensureBaseImage(options: BaseImageOptions): Promise<UnpackedImage> {
  const { cacheDir, reference, registryInsecureHttp, signal } = options;
  if (reference) return ensureImage({ cacheDir, reference, registryInsecureHttp, signal });
  const progress = (message: string, fraction: number) => options.onProgress?.({ message, fraction });
  return makeImageOnce({
    cacheDir,
    digest: baseRecipeDigest(),
    make: async (draft) => {
      await makeRootfs(rootfsOf(draft), progress, signal);
      return { env: baseRecipe.env, workingDir: null, user: null, entrypoint: [], cmd: [] };
    },
    onWait: () => progress('waiting for another process that makes the base image', 0),
    signal,
  });
}

/** The base image if it is in the cache. Null for a reference, because only its registry knows which image it means. */
export async function cachedBaseImage(options: BaseImageOptions): Promise<UnpackedImage | null> {
  return options.reference ? null : readUnpackedImage(imageFolder(options.cacheDir, baseRecipeDigest()));
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
    if (!(error instanceof CommandError)) throw error;
    throw new Error(`The base image could not be made from Debian packages. ${error.message}`, { cause: error });
  }
}
