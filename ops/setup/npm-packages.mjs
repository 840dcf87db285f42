import fs from 'node:fs';
import path from 'node:path';
import { withMachineCertificates } from '../../platform/config/machine-certificates.mjs';
import { runCommand } from './command.mjs';

export const npmPackagesTitle = 'npm packages';

/**
 * The npm packages, exactly those of package-lock.json.
 * @param {string} root
 * @returns {import('./progress.mjs').Step}
 */
export function npmPackages(root) {
  return {
    title: npmPackagesTitle,
    disk: [{ folder: root, mb: 1800 }],
    isDone: () => areInstalled(root),
    async run() {
      await runCommand('npm', ['ci', '--no-audit', '--no-fund'], {
        cwd: root,
        env: withMachineCertificates(process.env),
        what: 'npm ci',
      });
    },
  };
}

/** Reads npm's record of installed packages. Packages for other platforms are not in it. */
function areInstalled(root) {
  const recordFile = path.join(root, 'node_modules/.package-lock.json');
  if (!fs.existsSync(recordFile)) return false;
  const installed = JSON.parse(fs.readFileSync(recordFile, 'utf8')).packages;
  const wanted = JSON.parse(fs.readFileSync(path.join(root, 'package-lock.json'), 'utf8')).packages;
  return Object.entries(wanted).every(
    ([folder, { version, optional }]) =>
      folder === '' || installed[folder]?.version === version || (optional && !installed[folder]),
  );
}

/**
 * The Node binary that all programs of the platform use, independent of the machine's Node.
 * @param {string} root
 */
export function projectNode(root) {
  return path.join(root, 'node_modules/node/bin/node');
}
