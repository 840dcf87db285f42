import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, readFile, rm, symlink } from 'node:fs/promises';
import path from 'node:path';
import { CommandError, runCommand } from '../process/command.ts';
import { type BaseImageOptions, cachedBaseImage, ensureBaseImage } from './base-image.ts';
import { makeImageOnce } from './make-once.ts';
import { imageFolder, readUnpackedImage, rootfsOf, type UnpackedImage } from './unpacked-image.ts';

export interface CodeInterpreterImageOptions extends BaseImageOptions {
  /**
   * The folder of the recipe: `requirements.txt` (Python packages), `npm-version`, `finish.sh` (run in the tree when
   * its packages are there).
   */
  recipeDir: string;
}

/** Where every sandbox sees the platform's Node. */
const nodeInSandbox = '/.platform/bin/node';

/**
 * The image of the built-in template `code-interpreter`: the base image with what the recipe adds, the platform's Node
 * as `node`, and npm. Made on first use, from the package indexes this machine is set up for, and then taken from the
 * cache. Safe to call from many processes at once. Needs root, unshare(1) and npm.
 * @throws {Error} with the maker's own words when it fails
 */
export async function ensureCodeInterpreterImage(options: CodeInterpreterImageOptions): Promise<UnpackedImage> {
  const { cacheDir, recipeDir, signal } = options;
  const base = await ensureBaseImage(options);
  const progress = (message: string, fraction: number) => options.onProgress?.({ message, fraction });
  return makeImageOnce({
    cacheDir,
    digest: await digestOver(base, recipeDir),
    make: async (draft) => {
      const rootfs = rootfsOf(draft);
      try {
        progress('copying the base image', 0);
        await runCommand('cp', ['-a', '--reflink=auto', base.rootfs, rootfs], { signal });
        progress('installing the Python packages', 0.2);
        await installPythonPackages(rootfs, recipeDir, signal);
        progress('installing npm', 0.9);
        await installNode(rootfs, await npmVersion(recipeDir), signal);
      } catch (error) {
        if (!(error instanceof CommandError)) throw error;
        throw new Error(`The code-interpreter image could not be made. ${error.message}`, { cause: error });
      }
      return base.config;
    },
    onWait: () => progress('waiting for another process that makes the code-interpreter image', 0),
    signal,
  });
}

/** The image if it and the base image are in the cache; otherwise null, as in `cachedBaseImage`. */
export async function cachedCodeInterpreterImage(options: CodeInterpreterImageOptions): Promise<UnpackedImage | null> {
  const base = await cachedBaseImage(options);
  return base && readUnpackedImage(imageFolder(options.cacheDir, await digestOver(base, options.recipeDir)));
}

const requirementsFile = (recipeDir: string) => path.join(recipeDir, 'requirements.txt');
const finishFile = (recipeDir: string) => path.join(recipeDir, 'finish.sh');
const npmVersion = async (recipeDir: string) => (await readFile(path.join(recipeDir, 'npm-version'), 'utf8')).trim();

/** Names the image by what it is made from: any change gives it a new digest, so hosts make it again. */
async function digestOver(base: UnpackedImage, recipeDir: string): Promise<string> {
  const inputs = {
    base: base.digest,
    requirements: await readFile(requirementsFile(recipeDir), 'utf8'),
    finish: await readFile(finishFile(recipeDir), 'utf8'),
    npm: await npmVersion(recipeDir),
    node: nodeInSandbox,
  };
  return `sha256:${createHash('sha256').update(JSON.stringify(inputs)).digest('hex')}`;
}

/**
 * Runs the tree's own pip. Only for that time the tree sees this machine's resolvers, certificates and pip settings;
 * none of them stay in the image.
 */
async function installPythonPackages(
  rootfs: string,
  recipeDir: string,
  signal: AbortSignal | undefined,
): Promise<void> {
  const borrowed = ['/etc/resolv.conf', '/etc/ssl/certs/ca-certificates.crt'].filter((file) => existsSync(file));
  const script = [
    'set -e',
    'export LC_ALL=C.UTF-8',
    'mount -t tmpfs tmpfs "$1/tmp"',
    ...borrowed.map((file) => `mount --bind ${file} "$1${file}"`),
    'cp "$2" "$1/tmp/requirements.txt"',
    'cp "$3" "$1/tmp/finish.sh"',
    'if [ -e /etc/pip.conf ]; then cp /etc/pip.conf "$1/tmp/pip.conf"; export PIP_CONFIG_FILE=/tmp/pip.conf; fi',
    // This machine has no such folder.
    'unset PIP_FIND_LINKS PIP_CERT',
    'chroot "$1" python3 -m pip install --quiet --no-cache-dir --only-binary :all: --root-user-action ignore --disable-pip-version-check -r /tmp/requirements.txt',
    'HOME=/root chroot "$1" sh -e /tmp/finish.sh',
  ].join('\n');
  const files = [rootfs, requirementsFile(recipeDir), finishFile(recipeDir)];
  await runCommand('unshare', ['--mount', '--propagation', 'private', 'sh', '-c', script, 'sh', ...files], { signal });
}

async function installNode(rootfs: string, npm: string, signal: AbortSignal | undefined): Promise<void> {
  const modules = path.join(rootfs, 'usr/local/lib/node_modules');
  const bin = path.join(rootfs, 'usr/local/bin');
  await mkdir(path.join(modules, 'npm'), { recursive: true });
  await symlink(nodeInSandbox, path.join(bin, 'node'));
  await runCommand('npm', ['pack', '--silent', '--pack-destination', modules, `npm@${npm}`], { signal });
  const archive = path.join(modules, `npm-${npm}.tgz`);
  const unpack = ['-xzf', archive, '-C', path.join(modules, 'npm'), '--strip-components=1', '--no-same-owner'];
  await runCommand('tar', unpack, { signal });
  await rm(archive);
  for (const name of ['npm', 'npx']) {
    await symlink(`../lib/node_modules/npm/bin/${name}-cli.js`, path.join(bin, name));
  }
}
