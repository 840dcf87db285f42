import fs from 'node:fs';
import path from 'node:path';
import { runCommand } from './command.mjs';
import { npmPackagesTitle, projectNode } from './npm-packages.mjs';

/**
 * The program inside each sandbox, bundled.
 * @param {string} root
 */
export function agentBundle(root) {
  return bundle(root, { title: 'Agent bundle', folder: 'agent', what: 'building the agent' });
}

/**
 * The compiled code of the agent of a release. In a clone, the build of the agent makes it.
 * @param {string} root
 * @returns {import('./progress.mjs').Step}
 */
export function agentCodeCache(root) {
  const folder = path.join(root, 'agent/dist');
  return {
    title: "The agent's compiled code",
    isDone: () => ['core', 'sandbox'].every((name) => fs.existsSync(path.join(folder, `${name}.cache`))),
    async run() {
      const node = projectNode(root);
      await runCommand(node, [path.join(root, 'agent/code-cache.mjs'), folder, node], { what: 'compiling the agent' });
    },
  };
}

/**
 * The web pages that the gateway serves, bundled.
 * @param {string} root
 */
export function webPagesBundle(root) {
  return bundle(root, { title: 'Web pages', folder: 'gateway/pages', what: 'building the web pages' });
}

/**
 * The web console that the API serves, bundled.
 * @param {string} root
 */
export function consoleBundle(root) {
  return bundle(root, { title: 'Console', folder: 'console', what: 'building the console' });
}

/**
 * The packages of the clients, which the API serves.
 * @param {string} root
 */
export function clientPackages(root) {
  return bundle(root, { title: 'Client packages', folder: 'clients', what: 'building the packages of the clients' });
}

/**
 * The result of a folder's `build.mjs` in its `dist`. It is made again when a source, or the Node that runs it, is
 * newer.
 * @param {string} root
 * @param {{ title: string, folder: string, what: string }} bundled
 * @returns {import('./progress.mjs').Step}
 */
function bundle(root, { title, folder, what }) {
  const source = path.join(root, folder);
  const dist = path.join(source, 'dist');
  /** The time of this file is that of the last successful build. */
  const stamp = path.join(dist, '.made');
  return {
    title,
    needs: [npmPackagesTitle],
    isDone() {
      const madeMs = modifiedMs(stamp);
      const sources = fs
        .readdirSync(source, { recursive: true, withFileTypes: true })
        .filter((entry) => entry.isFile())
        // Older releases of Node 20 only have the former name of this property.
        .map((entry) => path.join(entry.parentPath ?? entry.path, entry.name))
        .filter((file) => !file.startsWith(`${dist}${path.sep}`));
      return [...sources, projectNode(root)].every((file) => modifiedMs(file) <= madeMs);
    },
    async run() {
      await runCommand(projectNode(root), [path.join(source, 'build.mjs')], { cwd: root, what });
      fs.writeFileSync(stamp, '');
    },
  };
}

/** 0 for a missing file. */
function modifiedMs(file) {
  return fs.statSync(file, { throwIfNoEntry: false })?.mtimeMs ?? 0;
}
