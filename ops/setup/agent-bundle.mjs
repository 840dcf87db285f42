import fs from 'node:fs';
import path from 'node:path';
import { runCommand } from './command.mjs';
import { projectNode } from './npm-packages.mjs';

/**
 * The program inside each sandbox, bundled. Made again when a source of it is newer, or the Node that runs it.
 * @param {string} root
 * @returns {import('./progress.mjs').Step}
 */
export function agentBundle(root) {
  const agent = path.join(root, 'agent');
  const dist = path.join(agent, 'dist');
  /** Dated by the last build that went well. */
  const stamp = path.join(dist, '.made');
  return {
    title: 'Agent bundle',
    isDone() {
      const madeMs = modifiedMs(stamp);
      const sources = fs
        .readdirSync(agent, { recursive: true, withFileTypes: true })
        .filter((entry) => entry.isFile())
        // Older releases of Node 20 know the folder of an entry by its former name only.
        .map((entry) => path.join(entry.parentPath ?? entry.path, entry.name))
        .filter((file) => !file.startsWith(`${dist}${path.sep}`));
      return [...sources, projectNode(root)].every((file) => modifiedMs(file) <= madeMs);
    },
    async run() {
      await runCommand(projectNode(root), [path.join(agent, 'build.mjs')], { cwd: root, what: 'building the agent' });
      fs.writeFileSync(stamp, '');
    },
  };
}

/** 0 for a file that is not there. */
function modifiedMs(file) {
  return fs.statSync(file, { throwIfNoEntry: false })?.mtimeMs ?? 0;
}
