import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, rm, symlink, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { boundedFetch } from '../../platform/config/bounded-fetch.ts';
import { runContained } from '../process/contained.ts';
import {
  type BaseImageOptions,
  baseRecipeDigest,
  cachedBaseImage,
  ensureBaseImage,
  makeFromPackages,
} from './base-image.ts';
import { ImageBuildError } from './image-build-error.ts';
import {
  type ImageConfig,
  imageFolder,
  makeImageOnce,
  readUnpackedImage,
  rootfsPath,
  type UnpackedImage,
} from './image-cache.ts';
import {
  type InterpreterRecipe,
  interpreterDigest,
  type NpmVersion,
  readInterpreterRecipe,
} from './interpreter-recipe.ts';

export interface CodeInterpreterImageOptions extends BaseImageOptions {
  /** The folder of the recipe. `interpreter-recipe.ts` describes its files. */
  recipeDir: string;
}

/** The path of the platform's Node in every sandbox. */
const nodeInSandbox = '/.platform/bin/node';
/** npm itself has 3 MB. */
const fetchNpm = boundedFetch({ timeoutMs: 120_000, maxReplyBytes: 32e6 });
const enterTree = path.join(import.meta.dirname, 'enter-tree.pl');

type Progress = (message: string, fraction: number) => void;

/**
 * The image of a built-in template for code: the base image with the additions of the recipe, the platform's Node as
 * `node`, and npm. It is made on first use from the package indexes of this machine, and later taken from the cache.
 * Many processes may call this at the same time. Needs root, setpriv(1) and unshare(1).
 * @throws {ImageBuildError} with the failed step; the cause has the output of the program
 */
export async function ensureCodeInterpreterImage(options: CodeInterpreterImageOptions): Promise<UnpackedImage> {
  const { cacheDir, signal } = options;
  const recipe = await readInterpreterRecipe(options.recipeDir);
  const base = recipe.packages.length > 0 ? null : await ensureBaseImage(options);
  let step = '';
  const progress: Progress = (message, fraction) => {
    step = message;
    options.onProgress?.({ message, fraction });
  };
  return makeImageOnce({
    cacheDir,
    digest: interpreterDigest(base?.digest ?? baseRecipeDigest(recipe.packages), recipe, nodeInSandbox),
    make: async (draft) => {
      const rootfs = rootfsPath(draft);
      try {
        const config = await makeBelow(rootfs, base, recipe, progress, signal);
        progress('installing the Python packages', 0.6);
        await runRecipe(rootfs, recipe, `${draft}/recipe`, signal);
        progress('installing npm', 0.95);
        await installNode(rootfs, recipe.npm, `${draft}/npm.tgz`, signal);
        return config;
      } catch (error) {
        if (signal?.aborted) throw error;
        const what = `The image of the template ${recipe.name} could not be made (${step})`;
        throw new ImageBuildError(what, { cause: error });
      }
    },
    onWait: () => progress(`waiting for another process that makes the image of ${recipe.name}`, 0),
    signal,
  });
}

/** The image if both it and the base image are in the cache. Otherwise null, as in `cachedBaseImage`. */
export async function cachedCodeInterpreterImage(options: CodeInterpreterImageOptions): Promise<UnpackedImage | null> {
  const recipe = await readInterpreterRecipe(options.recipeDir);
  const below =
    recipe.packages.length > 0 ? baseRecipeDigest(recipe.packages) : (await cachedBaseImage(options))?.digest;
  if (below === undefined) return null;
  return readUnpackedImage(imageFolder(options.cacheDir, interpreterDigest(below, recipe, nodeInSandbox)));
}

/**
 * The tree to which the recipe is added: a copy of the base image, or a tree made with the recipe's Debian packages.
 */
async function makeBelow(
  rootfs: string,
  base: UnpackedImage | null,
  recipe: InterpreterRecipe,
  progress: Progress,
  signal: AbortSignal | undefined,
): Promise<ImageConfig> {
  if (!base) {
    const scaled: Progress = (message, fraction) => progress(message, fraction * 0.6);
    return makeFromPackages(rootfs, recipe.packages, scaled, signal);
  }
  progress('copying the base image', 0);
  await runContained('cp', ['-a', '--reflink=auto', base.rootfs, rootfs], { signal });
  return base.config;
}

/**
 * Runs the tree's own pip and the recipe's script. Only during that time the tree sees this machine's resolvers,
 * certificates and pip settings. None of them stay in the image.
 */
async function runRecipe(
  rootfs: string,
  recipe: InterpreterRecipe,
  folder: string,
  signal: AbortSignal | undefined,
): Promise<void> {
  const borrowed = ['/etc/resolv.conf', '/etc/ssl/certs/ca-certificates.crt'].filter((file) => existsSync(file));
  await mkdir(folder);
  await writeFile(path.join(folder, 'requirements.txt'), recipe.requirements);
  await writeFile(path.join(folder, 'finish.sh'), recipe.finish);
  const script = [
    'set -e',
    'export LC_ALL=C.UTF-8 HOME=/root',
    'mount -t tmpfs tmpfs "$1/tmp"',
    'mount -t proc -o nosuid,nodev,noexec proc "$1/proc"',
    ...borrowed.map((file) => `mount --bind ${file} "$1${file}"`),
    'cp "$2"/* "$1/tmp"',
    'if [ -e /etc/pip.conf ]; then cp /etc/pip.conf "$1/tmp/pip.conf"; export PIP_CONFIG_FILE=/tmp/pip.conf; fi',
    // The tree cannot see such a folder of this machine.
    'unset PIP_FIND_LINKS PIP_CERT',
    'perl "$3" "$1" python3 -m pip install --quiet --no-cache-dir --only-binary :all: --root-user-action ignore --disable-pip-version-check -r /tmp/requirements.txt',
    'exec perl "$3" "$1" sh -e /tmp/finish.sh',
  ].join('\n');
  await runContained('sh', ['-c', script, 'sh', rootfs, folder, enterTree], { signal });
  await rm(folder, { recursive: true });
}

/**
 * Without the npm of this machine: a release runs on machines that have none.
 * @param archive a file outside of the tree, where no link of the tree can lead a write elsewhere
 */
async function installNode(
  rootfs: string,
  npm: NpmVersion,
  archive: string,
  signal: AbortSignal | undefined,
): Promise<void> {
  const folder = path.join(rootfs, 'usr/local/lib/node_modules/npm');
  const bin = path.join(rootfs, 'usr/local/bin');
  await mkdir(folder, { recursive: true });
  await symlink(nodeInSandbox, path.join(bin, 'node'));
  await writeFile(archive, await downloadNpm(npm, signal));
  await runContained('tar', ['-xzf', archive, '-C', folder, '--strip-components=1', '--no-same-owner'], { signal });
  await rm(archive);
  for (const name of ['npm', 'npx']) {
    await symlink(`../lib/node_modules/npm/bin/${name}-cli.js`, path.join(bin, name));
  }
}

async function downloadNpm({ version, integrity }: NpmVersion, signal: AbortSignal | undefined): Promise<Buffer> {
  const registry = process.env.npm_config_registry ?? process.env.NPM_CONFIG_REGISTRY ?? 'https://registry.npmjs.org';
  const url = `${registry.replace(/\/$/, '')}/npm/-/npm-${version}.tgz`;
  const reply = await fetchNpm(url, { signal: signal ?? null });
  if (reply.status !== 200) throw new Error(`${url} was answered with ${reply.status}`);
  const archive = Buffer.from(await reply.arrayBuffer());
  const found = `sha512-${createHash('sha512').update(archive).digest('base64')}`;
  if (found !== integrity) throw new Error(`${url} has other bytes than ${integrity}`);
  return archive;
}
