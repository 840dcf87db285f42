import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, readFile, rename, rm, symlink } from 'node:fs/promises';
import path from 'node:path';
import { type BaseImageOptions, ensureBaseImage } from '../../../runtime/images/base-image.ts';
import { imageFolder } from '../../../runtime/images/image-store.ts';
import {
  readUnpackedImage,
  rootfsOf,
  type UnpackedImage,
  writeUnpackedImage,
} from '../../../runtime/images/unpacked-image.ts';
import { CommandError, runCommand } from '../../../runtime/process/command.ts';
import { withFileLock } from '../../../runtime/process/file-lock.ts';

/** What the template adds to `base`. Any change gives the image a new digest, so hosts make it again. */
const recipe = {
  npm: '11.21.2',
  /** Where every sandbox sees the platform's Node. */
  node: '/.platform/bin/node',
  /** Shell commands that run in the tree, after its packages are there. */
  finish: [
    'ln -sf python3 /usr/bin/python',
    // matplotlib looks for fonts once, for a second, and remembers what it found.
    'HOME=/root python3 -c "import matplotlib.pyplot"',
  ],
};

const requirementsFile = path.join(import.meta.dirname, 'requirements.txt');

/**
 * The image of the built-in template `code-interpreter`: `base` with the Python packages of `requirements.txt`, the
 * platform's Node as `node`, and npm. Made on first use, from the package indexes this machine is set up for, and then
 * taken from the cache. Safe to call from many processes at once. Needs root and unshare(1).
 * @throws {Error} with the maker's own words when it fails
 */
export async function ensureCodeInterpreterImage(options: BaseImageOptions): Promise<UnpackedImage> {
  const { cacheDir, signal } = options;
  const base = await ensureBaseImage(options);
  const digest = await digestOver(base);
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
      try {
        const rootfs = rootfsOf(draft);
        progress('copying the base image', 0);
        await runCommand('cp', ['-a', '--reflink=auto', base.rootfs, rootfs], { signal });
        progress('installing the Python packages', 0.2);
        await installPythonPackages(rootfs, signal);
        progress('installing npm', 0.9);
        await installNode(rootfs, signal);
        await writeUnpackedImage(draft, digest, base.config);
        await runCommand('sync', ['-f', draft]);
        await rename(draft, folder);
      } catch (error) {
        await rm(draft, { recursive: true, force: true });
        if (!(error instanceof CommandError)) throw error;
        throw new Error(`The code-interpreter image could not be made. ${error.message}`, { cause: error });
      }
      progress('code-interpreter image is ready', 1);
      return (await readUnpackedImage(folder))!;
    },
    { onWait: () => progress('waiting for another process that makes the image', 0), signal },
  );
}

async function digestOver(base: UnpackedImage): Promise<string> {
  const inputs = { base: base.digest, requirements: await readFile(requirementsFile, 'utf8'), recipe };
  return `sha256:${createHash('sha256').update(JSON.stringify(inputs)).digest('hex')}`;
}

/**
 * pip of the tree itself, in the tree. For that time, and for it alone, the tree sees this machine's resolvers,
 * certificates and pip settings; nothing of them stays in the image.
 */
async function installPythonPackages(rootfs: string, signal: AbortSignal | undefined): Promise<void> {
  const borrowed = ['/etc/resolv.conf', '/etc/ssl/certs/ca-certificates.crt'].filter((file) => existsSync(file));
  const script = [
    'set -e',
    'export LC_ALL=C.UTF-8',
    'mount -t tmpfs tmpfs "$1/tmp"',
    ...borrowed.map((file) => `mount --bind ${file} "$1${file}"`),
    'cp "$2" "$1/tmp/requirements.txt"',
    'if [ -e /etc/pip.conf ]; then cp /etc/pip.conf "$1/tmp/pip.conf"; export PIP_CONFIG_FILE=/tmp/pip.conf; fi',
    // A folder of this machine is not there to look into.
    'unset PIP_FIND_LINKS PIP_CERT',
    'chroot "$1" python3 -m pip install --quiet --no-cache-dir --only-binary :all: --root-user-action ignore --disable-pip-version-check -r /tmp/requirements.txt',
    ...recipe.finish.map((command) => `chroot "$1" sh -c '${command}'`),
  ].join('\n');
  const args = ['--mount', '--propagation', 'private', 'sh', '-c', script, 'sh', rootfs, requirementsFile];
  await runCommand('unshare', args, { signal });
}

async function installNode(rootfs: string, signal: AbortSignal | undefined): Promise<void> {
  const modules = path.join(rootfs, 'usr/local/lib/node_modules');
  const bin = path.join(rootfs, 'usr/local/bin');
  await mkdir(path.join(modules, 'npm'), { recursive: true });
  await symlink(recipe.node, path.join(bin, 'node'));
  await runCommand('npm', ['pack', '--silent', '--pack-destination', modules, `npm@${recipe.npm}`], { signal });
  const archive = path.join(modules, `npm-${recipe.npm}.tgz`);
  const unpack = ['-xzf', archive, '-C', path.join(modules, 'npm'), '--strip-components=1', '--no-same-owner'];
  await runCommand('tar', unpack, { signal });
  await rm(archive);
  for (const name of ['npm', 'npx']) {
    await symlink(`../lib/node_modules/npm/bin/${name}-cli.js`, path.join(bin, name));
  }
}
