import fs from 'node:fs';
import { isOnPath, runCommand } from './command.mjs';
import { SetupError } from './progress.mjs';

/** A program that a package brings, by which its presence is seen on any distribution. */
const programs = {
  // What skopeo and s3fs know servers by.
  'ca-certificates': 'update-ca-certificates',
  s3fs: 's3fs',
  skopeo: 'skopeo',
  umoci: 'umoci',
  'docker-registry': 'docker-registry',
  e2fsprogs: 'mkfs.ext4',
  runc: 'runc',
  crun: 'crun',
  nftables: 'nft',
  iproute2: 'ip',
  mmdebstrap: 'mmdebstrap',
  tini: 'tini',
};

/** For the time-skipping test server, for a look at docker-compose.yml, as TURN server, and as a browser. */
const testPrograms = {
  'default-jre-headless': 'java',
  maven: 'mvn',
  'docker-compose': 'docker-compose',
  coturn: 'turnserver',
  chromium: 'chromium',
};

/** Packages that start a service of their own when installed, which the platform has no use for. */
const unwantedServices = ['docker-registry', 'coturn'];

/**
 * What the local driver and the registry need from the distribution.
 * @param {{tests: boolean}} options
 * @returns {import('./progress.mjs').Step}
 */
export function debianPackages({ tests }) {
  const wanted = Object.entries({ ...programs, ...(tests ? testPrograms : {}) });
  const missing = () => wanted.filter(([, program]) => !isOnPath(program)).map(([name]) => name);
  return {
    title: 'Debian packages',
    isDone: () => missing().length === 0,
    async run() {
      const names = missing();
      const install = ['install', '--yes', '--no-install-recommends', ...names];
      const command = `apt-get update && apt-get ${install.join(' ')}`;
      if (process.getuid() !== 0) {
        throw new SetupError(`These Debian packages are missing. Run as root:\n\n  ${command}\n`);
      }
      if (!isOnPath('apt-get')) {
        throw new SetupError(
          `These programs are missing, and there is no apt-get to install them with:\n  ${names.join(' ')}`,
        );
      }
      console.log(`    ${command}`);
      const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' };
      await runCommand('apt-get', ['update'], { env, what: 'apt-get update' });
      await runCommand('apt-get', install, { env, what: 'apt-get install' });
      const servicesRun = fs.existsSync('/run/systemd/system');
      for (const service of unwantedServices) {
        if (servicesRun && names.includes(service)) await runCommand('systemctl', ['disable', '--now', service]);
      }
    },
  };
}
