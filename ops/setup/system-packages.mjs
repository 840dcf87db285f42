import fs from 'node:fs';
import { installCommand, packageManager } from '../../platform/config/package-manager.mjs';
import { missingPrograms, packagesOf } from '../../platform/config/programs.mjs';
import { runCommand } from './command.mjs';
import { report, SetupError } from './progress.mjs';

/** Services that Debian's packages start on installation, and that the platform does not use. */
const unwantedServices = {
  'docker-registry': ['docker-registry'],
  coturn: ['coturn'],
  'docker.io': ['docker.socket', 'docker', 'containerd'],
};

export const systemPackagesTitle = 'System packages';

/**
 * The distribution's packages of the programs that the platform runs (`platform/config/programs.json`).
 * @param {import('../../platform/config/programs.mjs').Purpose} purpose
 * @returns {import('./progress.mjs').Step}
 */
export function systemPackages(purpose) {
  return {
    title: systemPackagesTitle,
    disk: [{ folder: '/usr', mb: purpose === 'start' ? 600 : 2500 }],
    isDone: () => missingPrograms(purpose, packageManager()?.family).length === 0,
    async run() {
      const manager = packageManager();
      const missing = missingPrograms(purpose, manager?.family);
      if (!manager) throw new SetupError(withoutManager(missing));
      if (manager.family !== 'debian' && purpose !== 'start') {
        throw new SetupError(`The tests know the packages of Debian and Ubuntu only. Install: ${missing.join(' ')}`);
      }
      const names = packagesOf(missing, manager.family);
      const command = installCommand(manager, names);
      if (process.getuid() !== 0) throw new SetupError(`Packages are missing. Run as root:\n\n  ${command}\n`);
      report(command);
      const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' };
      const { program, refresh, install, hint } = manager;
      if (refresh) await runCommand(program, refresh, { env, what: `${program} ${refresh.join(' ')}` });
      try {
        // Without the end of its installation, dpkg would refuse any other one.
        await runCommand(program, [...install, ...names], { env, what: `${program} install`, isInterruptible: false });
      } catch (error) {
        if (!(error instanceof SetupError) || !hint) throw error;
        throw new SetupError(`${error.message}\n${hint}`);
      }
      if (fs.existsSync('/run/systemd/system')) {
        const services = manager.family === 'debian' ? names.flatMap((name) => unwantedServices[name] ?? []) : [];
        for (const service of services) await runCommand('systemctl', ['disable', '--now', service]);
      }
      const still = missingPrograms(purpose, manager.family);
      if (still.length > 0) {
        throw new SetupError(`${program} installed these packages without the programs we need: ${still.join(' ')}`);
      }
    },
  };
}

/** @param {readonly string[]} missing */
function withoutManager(missing) {
  return (
    `These programs are missing: ${missing.join(' ')}\n` +
    'Set-up installs packages with apt-get, dnf, zypper or pacman, and cannot tell which of them this distribution uses.\n' +
    `Install them. Debian's packages of them are: ${packagesOf(missing, 'debian').join(' ')}`
  );
}
