import { spawn } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import { projectNode } from './npm-packages.mjs';
import { SetupError } from './progress.mjs';

/**
 * The image of the `base` template, unpacked in the cache.
 * @param {string} root
 * @returns {import('./progress.mjs').Step}
 */
export function baseImage(root) {
  const script = path.join(root, 'ops/base-image.ts');
  const run = async (...args) => {
    const [code] = await once(spawn(projectNode(root), [script, ...args], { cwd: root, stdio: 'inherit' }), 'exit');
    return code === 0;
  };
  return {
    title: 'Base image',
    expectation: 'about 2 minutes when it is made from Debian packages, once for this machine',
    isDone: () => run('--check'),
    async run() {
      if (process.getuid() !== 0)
        throw new SetupError('The base image and the local driver need root: run this as root.');
      if (!(await run())) throw new SetupError('The base image could not be made: see above.');
    },
  };
}
