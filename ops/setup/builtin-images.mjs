import { spawn } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import { projectNode } from './npm-packages.mjs';
import { SetupError } from './progress.mjs';

/**
 * The image of the `base` template, unpacked in the cache.
 * @param {string} root
 */
export function baseImage(root) {
  return builtinImage(root, 'base', 'about 2 minutes when it is made from Debian packages, once for this machine');
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
  const script = path.join(root, 'ops/setup/builtin-image.ts');
  const run = async (...args) => {
    const [code] = await once(
      spawn(projectNode(root), [script, name, ...args], { cwd: root, stdio: 'inherit' }),
      'exit',
    );
    return code === 0;
  };
  return {
    title: `Image of the template ${name}`,
    expectation,
    isDone: () => run('--check'),
    async run() {
      if (process.getuid() !== 0) throw new SetupError('Images and the local driver need root: run this as root.');
      if (!(await run())) throw new SetupError(`The image of the template ${name} could not be made: see above.`);
    },
  };
}
