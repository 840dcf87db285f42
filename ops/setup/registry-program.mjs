import fs from 'node:fs';
import path from 'node:path';
import { packageManager } from '../../platform/config/package-manager.mjs';
import { isInstalled, packagesOf } from '../../platform/config/programs.mjs';
import { lockFile } from './file-lock.mjs';
import { buildDisk, buildGoPrograms, findGo } from './go-programs.mjs';
import { SetupError, stopSignal } from './progress.mjs';
import { cacheDir, registryProgram as location, versions } from './toolchain/locations.mjs';

const name = 'docker-registry';

/** @type {Record<string, [string, string]>} */
export const registryModules = { [name]: ['github.com/distribution/distribution/v3/cmd/registry', versions.registry] };

/**
 * The OCI registry of `npm start`. It is a package of Debian and Ubuntu. Elsewhere it is built from its Go module, once
 * for this machine.
 * @returns {import('./progress.mjs').Step}
 */
export function registryProgram() {
  const { dir } = location();
  const family = packageManager()?.family ?? 'debian';
  return {
    title: 'OCI registry',
    expectation: 'a build of about 3 minutes on two cores, once for this machine',
    disk: [{ folder: cacheDir(), mb: buildDisk.registryMb }],
    isDone: () => packagesOf([name], family).length > 0 || isInstalled(name) || fs.existsSync(dir),
    async run() {
      const go = await findGo();
      if (!go) {
        throw new SetupError(
          `This distribution has no package of the OCI registry. Install Go ${versions.goMinimum} or newer to have it built, or set PLATFORM_REGISTRY to a registry that you have.`,
        );
      }
      const lock = await lockFile(path.join(path.dirname(dir), 'registry.lock'), { wait: true, stop: stopSignal() });
      try {
        if (fs.existsSync(dir)) return;
        await buildGoPrograms(go, dir, registryModules);
      } finally {
        await lock.release();
      }
    },
  };
}
