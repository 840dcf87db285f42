import { spawn } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import { runCommand } from './command.mjs';
import { npmPackagesTitle, projectNode } from './npm-packages.mjs';
import { report, SetupError } from './progress.mjs';
import { systemPackagesTitle } from './system-packages.mjs';
import { cacheDir } from './toolchain/locations.mjs';

/**
 * The image of the `base` template, unpacked in the cache.
 * @param {string} root
 */
export function baseImage(root) {
  return builtinImage(root, 'base', 'about a minute when it is made from Debian packages, once for this machine');
}

/**
 * The image of the `code-interpreter` template. A host makes it in the background; tests need it at once.
 * @param {string} root
 */
export function codeInterpreterImage(root) {
  return imagesAskedFor(root, ['code-interpreter'])[0];
}

/** The expected durations of images that hosts make in the background or on demand. */
const onDemand = {
  'code-interpreter': 'about a minute, once for this machine',
  'code-interpreter-all': 'about 3 minutes, once for this machine',
};

/**
 * The images of the templates in the flag `--with`, for set-up to make at once.
 * @param {string} root
 * @param {string[]} names
 * @throws {SetupError} for an unknown name
 */
export function imagesAskedFor(root, names) {
  return names.map((name) => {
    const expectation = onDemand[name];
    if (!expectation) throw new SetupError(`--with ${name}: give one of ${Object.keys(onDemand).join(', ')}`);
    return builtinImage(root, name, expectation);
  });
}

/**
 * @param {string} root
 * @param {string} name
 * @param {string} expectation
 * @returns {import('./progress.mjs').Step}
 */
function builtinImage(root, name, expectation) {
  const words = [path.join(root, 'ops/setup/builtin-image.ts'), name];
  return {
    title: imageTitle(name),
    expectation,
    // The other images are made of the base image.
    needs: [npmPackagesTitle, systemPackagesTitle, ...(name === 'base' ? [] : [imageTitle('base')])],
    disk: [{ folder: cacheDir(), mb: name === 'base' ? 700 : 2000 }],
    async isDone() {
      const check = spawn(projectNode(root), [...words, '--check'], {
        cwd: root,
        stdio: ['ignore', 'inherit', 'inherit'],
      });
      return (await once(check, 'exit'))[0] === 0;
    },
    async run() {
      if (process.getuid() !== 0) throw new SetupError('Images and the local driver need root: run this as root.');
      await runCommand(projectNode(root), words, { cwd: root, what: 'making the image', onLine: report });
    },
  };
}

/** @param {string} name */
export const imageTitle = (name) => `Image of the template ${name}`;
