import { createHash } from 'node:crypto';
import { mkdir } from 'node:fs/promises';
import { isInstalled } from '../../platform/config/programs.mjs';
import { releaseArchive } from '../../platform/config/unpacked-release.mjs';
import { withoutMmdebstrap } from '../machine/problems.mjs';
import { CommandError, runCommand } from '../process/command.ts';
import { runContained } from '../process/contained.ts';
import {
  type ImageConfig,
  type ImageProgress,
  imageFolder,
  makeImageOnce,
  readUnpackedImage,
  rootfsPath,
  type UnpackedImage,
} from './image-cache.ts';
import { ensureImage } from './image-store.ts';
import type { ImageLimits } from './unpack-layers.ts';

export interface BaseImageOptions {
  cacheDir: string;
  /** If set (`PLATFORM_BASE_IMAGE`), this image is pulled, and nothing is made from Debian packages. */
  reference?: string;
  registryInsecureHttp?: boolean;
  /** The limits of a pulled image. */
  limits?: ImageLimits;
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
 * The base image. It is pulled, unpacked from the release or made on first use, and later taken from the cache. Many processes may call this at
 * the same time: one makes the image, and the others wait. Needs root.
 * @throws {Error} with the message of the program that failed
 */
export async function ensureBaseImage(options: BaseImageOptions): Promise<UnpackedImage> {
  const { cacheDir, reference, registryInsecureHttp, limits, signal } = options;
  if (reference) return ensureImage({ cacheDir, reference, registryInsecureHttp, limits, signal });
  const progress = (message: string, fraction: number) => options.onProgress?.({ message, fraction });
  return makeImageOnce({
    cacheDir,
    digest: baseRecipeDigest(),
    make: async (draft) => {
      const archive = releaseArchive(baseImageArchive());
      if (!archive) return makeFromPackages(rootfsPath(draft), [], progress, signal);
      progress('unpacking the base image of the release', 0.5);
      return unpackTree(archive, rootfsPath(draft), signal);
    },
    onWait: () => progress('waiting for another process that makes the base image', 0),
    signal,
  });
}

/** The name of the base image's tree among the archives of a release. */
export const baseImageArchive = () => `base-image-${baseRecipeDigest().slice('sha256:'.length).slice(0, 16)}`;

async function unpackTree(archive: string, rootfs: string, signal: AbortSignal | undefined): Promise<ImageConfig> {
  await mkdir(rootfs);
  const words = ['--extract', '--zstd', '--preserve-permissions', '--numeric-owner', '--file', archive];
  await runCommand('tar', [...words, '--directory', rootfs], signal ? { signal } : {});
  return imageConfig();
}

/** The base image if it is in the cache. Null for a reference, because only its registry knows its current image. */
export async function cachedBaseImage(options: BaseImageOptions): Promise<UnpackedImage | null> {
  return options.reference ? null : readUnpackedImage(imageFolder(options.cacheDir, baseRecipeDigest()));
}

/**
 * Makes the tree of the base image, with further Debian packages, from packages.
 * @returns the configuration of the image's processes
 * @throws {Error} with the output of mmdebstrap
 */
export async function makeFromPackages(
  rootfs: string,
  further: readonly string[],
  progress: (message: string, fraction: number) => void,
  signal: AbortSignal | undefined,
): Promise<ImageConfig> {
  if (!isInstalled('mmdebstrap')) throw new Error(withoutMmdebstrap);
  const packages = [...baseRecipe.packages, ...further];
  const args = ['--mode=root', '--variant=minbase', '--format=directory', `--include=${packages.join(',')}`];
  for (const excluded of baseRecipe.excludedPaths) args.push(`--dpkgopt=path-exclude=${excluded}`);
  for (const included of baseRecipe.includedPaths) args.push(`--dpkgopt=path-include=${included}`);
  for (const command of baseRecipe.customize) args.push(`--customize-hook=${command}`);
  // Java's packages link their manual pages, and fail if the excluded folder is missing.
  if (further.length > 0) args.push('--essential-hook=mkdir --parents "$1/usr/share/man/man1"');
  args.push(baseRecipe.suite, rootfs);
  progress('starting mmdebstrap', 0);
  try {
    await runContained('mmdebstrap', args, {
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
  return imageConfig();
}

const imageConfig = (): ImageConfig => ({
  env: baseRecipe.env,
  workingDir: null,
  user: null,
  entrypoint: [],
  cmd: [],
});

/** The recipe of the base image from Debian packages. Any change gives it a new digest, so hosts make it again. */
const baseRecipe = {
  suite: 'bookworm',
  packages: [
    'bash',
    'bzip2',
    'ca-certificates',
    'curl',
    'file',
    'git',
    'iproute2',
    'iputils-ping',
    'jq',
    'less',
    'nano',
    'netcat-openbsd',
    'openssh-client',
    'patch',
    'procps',
    'psmisc',
    'python3',
    'python3-pip',
    'python3-venv',
    'rsync',
    'sudo',
    'unzip',
    'wget',
    'xz-utils',
    'zip',
  ],
  /** Removed from every package, because sandboxes do not need them. */
  excludedPaths: [
    '/usr/share/man/*',
    '/usr/share/doc/*',
    '/usr/share/info/*',
    '/usr/share/locale/*',
    '/usr/share/lintian/*',
  ],
  includedPaths: ['/usr/share/doc/*/copyright', '/usr/share/locale/locale.alias'],
  /** Shell commands that run in this order, with the new tree as `$1`. */
  customize: [
    'chroot "$1" useradd --create-home --shell /bin/bash --uid 1000 --user-group --groups sudo user',
    // The working directory of code contexts. All users of the sandbox may write there.
    'install --directory --mode 1777 "$1/workspace"',
    'echo "user ALL=(ALL) NOPASSWD: ALL" > "$1/etc/sudoers.d/user" && chmod 440 "$1/etc/sudoers.d/user"',
    // The sandbox's own files are mounted over these three files.
    ': > "$1/etc/resolv.conf" && echo sandbox > "$1/etc/hostname" && echo "127.0.0.1 localhost" > "$1/etc/hosts"',
    'rm -f "$1/etc/machine-id" && : > "$1/etc/machine-id"',
    // Debian gives ping a file capability that sandboxes lack, so ping would not start. Its ICMP socket works without
    // the capability.
    'cp "$1/usr/bin/ping" "$1/usr/bin/ping.plain" && mv "$1/usr/bin/ping.plain" "$1/usr/bin/ping"',
    // By default pip refuses to install beside Debian's packages. A sandbox has one user, so it is allowed here.
    'rm -f "$1"/usr/lib/python3*/EXTERNALLY-MANAGED',
  ],
  env: { LANG: 'C.UTF-8' },
};

/** The digest of this recipe with further packages on this processor architecture. */
export function baseRecipeDigest(packages: readonly string[] = []): string {
  const wanted = packages.length > 0 ? { packages: [...baseRecipe.packages, ...packages] } : {};
  const text = JSON.stringify({ ...baseRecipe, ...wanted, arch: process.arch });
  return `sha256:${createHash('sha256').update(text).digest('hex')}`;
}
