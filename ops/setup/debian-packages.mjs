import fs from 'node:fs';
import { isInstalled, missingPackages } from '../../platform/config/programs.mjs';
import { runCommand } from './command.mjs';
import { report, SetupError } from './progress.mjs';

/** Services that packages start on installation, and that the platform does not use. */
const unwantedServices = {
  'docker-registry': ['docker-registry'],
  coturn: ['coturn'],
  'docker.io': ['docker.socket', 'docker', 'containerd'],
};

export const debianPackagesTitle = 'Debian packages';

/**
 * The Debian packages of the programs that the platform runs (`platform/config/programs.json`).
 * @param {import('../../platform/config/programs.mjs').Purpose} purpose
 * @returns {import('./progress.mjs').Step}
 */
export function debianPackages(purpose) {
  return {
    title: debianPackagesTitle,
    disk: [{ folder: '/usr', mb: purpose === 'start' ? 600 : 2500 }],
    isDone: () => missingPackages(purpose).length === 0,
    async run() {
      const names = missingPackages(purpose);
      const install = ['install', '--yes', '--no-install-recommends', ...names];
      const command = `apt-get update && apt-get ${install.join(' ')}`;
      if (process.getuid() !== 0) {
        throw new SetupError(`These Debian packages are missing. Run as root:\n\n  ${command}\n`);
      }
      if (!isInstalled('apt-get')) {
        throw new SetupError(
          `The programs of these Debian packages are missing, and there is no apt-get to install them with:\n  ${names.join(' ')}`,
        );
      }
      report(command);
      const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' };
      await runCommand('apt-get', ['update'], { env, what: 'apt-get update' });
      // Without the end of its installation, dpkg would refuse any other one.
      await runCommand('apt-get', install, { env, what: 'apt-get install', isInterruptible: false });
      if (fs.existsSync('/run/systemd/system')) {
        const services = names.flatMap((name) => unwantedServices[name] ?? []);
        for (const service of services) await runCommand('systemctl', ['disable', '--now', service]);
      }
      const missing = missingPackages(purpose);
      if (missing.length > 0) {
        throw new SetupError(`apt-get installed these packages without the programs we need: ${missing.join(' ')}`);
      }
    },
  };
}
