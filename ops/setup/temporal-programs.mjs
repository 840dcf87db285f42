import fs from 'node:fs';
import path from 'node:path';
import { releaseArchive } from '../../platform/config/unpacked-release.mjs';
import { runCommand } from './command.mjs';
import { lockFile } from './file-lock.mjs';
import { buildDisk, buildGoPrograms, findGo } from './go-programs.mjs';
import { diskProblems } from './machine-checks.mjs';
import { npmPackagesTitle } from './npm-packages.mjs';
import { report, SetupError, stopSignal } from './progress.mjs';
import { systemPackagesTitle } from './system-packages.mjs';
import { downloadDevServer } from './temporal-dev-server.mjs';
import { cacheDir, temporalDevServer, temporalPrograms, temporalServerMark, versions } from './toolchain/locations.mjs';

/** @type {Record<string, [string, string]>} */
export const temporalModules = {
  'temporal-server': ['go.temporal.io/server/cmd/server', versions.temporal.server],
  'temporal-sql-tool': ['go.temporal.io/server/cmd/tools/sql', versions.temporal.server],
  'temporal-ui-server': ['github.com/temporalio/ui-server/v2/cmd/server', versions.temporal.ui],
  temporal: ['github.com/temporalio/cli/cmd/temporal', versions.temporal.cli],
};

/**
 * Temporal, once for this machine. By default its CLI is downloaded, which contains a development server. If that fails,
 * the server, its schema tool, Web UI and CLI are built from their Go modules. They are built at once with
 * `PLATFORM_TEMPORAL_BUILD`, for a data folder whose workflows are in the server's database, and with `needsServer`: tests
 * run on Postgres, as production does, and set values for single namespaces and task queues.
 * @param {string} root
 * @param {{needsServer?: boolean}} [options]
 * @returns {import('./progress.mjs').Step}
 */
export function temporal(root, { needsServer = false } = {}) {
  const dataDir = path.resolve(root, process.env.PLATFORM_DATA_DIR || '.data');
  const isAskedFor = ['1', 'true'].includes(process.env.PLATFORM_TEMPORAL_BUILD ?? '');
  const mustBuild = needsServer || isAskedFor || fs.existsSync(temporalServerMark(dataDir));
  const isBuilt = () => fs.existsSync(temporalPrograms().dir);
  return {
    title: 'Temporal',
    expectation: mustBuild ? 'a build of about 6 minutes on two cores, once for this machine' : undefined,
    needs: mustBuild ? [] : [npmPackagesTitle],
    disk: [{ folder: cacheDir(), mb: mustBuild ? buildDisk.temporalMb : 300 }],
    isDone: () => isBuilt() || (!mustBuild && fs.existsSync(temporalDevServer().dir)),
    async run() {
      const lock = await lockFile(path.join(path.dirname(temporalPrograms().dir), 'temporal.lock'), {
        wait: true,
        stop: stopSignal(),
      });
      try {
        if (this.isDone()) return;
        const failure = mustBuild ? null : await tryDownload(root);
        if (!mustBuild && failure === null) return;
        const go = await findGo();
        if (!go) throw new SetupError(`${failure ? `Temporal could not be downloaded. ${failure}\n` : ''}${remedy()}`);
        if (failure) {
          report(`it could not be downloaded. ${failure}`);
          report('building it instead: about 6 minutes on two cores');
          const full = diskProblems([{ folder: cacheDir(), mb: buildDisk.temporalMb }]);
          if (full.length > 0) throw new SetupError(full.join('\n'));
        }
        await buildGoPrograms(go, temporalPrograms().dir, temporalModules);
      } finally {
        await lock.release();
      }
    },
  };
}

/**
 * Temporal's server, its schema tool, Web UI and CLI of a release, unpacked.
 * @returns {import('./progress.mjs').Step}
 */
export function unpackedTemporal() {
  const { dir } = temporalPrograms();
  return {
    title: 'Temporal',
    // tar runs zstd.
    needs: [systemPackagesTitle],
    disk: [{ folder: cacheDir(), mb: 600 }],
    isDone: () => fs.existsSync(dir),
    async run() {
      const lock = await lockFile(path.join(path.dirname(dir), 'temporal.lock'), { wait: true, stop: stopSignal() });
      const unfinished = `${dir}.unfinished`;
      try {
        if (fs.existsSync(dir)) return;
        const archive = releaseArchive(path.basename(dir));
        if (!archive) throw new SetupError(`This release has no Temporal for ${process.arch}`);
        fs.rmSync(unfinished, { recursive: true, force: true });
        fs.mkdirSync(unfinished, { recursive: true });
        const unpack = ['--extract', '--zstd', '--no-same-owner', '--file', archive, '--directory', unfinished];
        await runCommand('tar', unpack, { what: 'unpacking Temporal' });
        fs.renameSync(unfinished, dir);
      } finally {
        fs.rmSync(unfinished, { recursive: true, force: true });
        await lock.release();
      }
    },
  };
}

/** @returns the reason of a failure; null when it was downloaded */
async function tryDownload(root) {
  try {
    await downloadDevServer(root);
    return null;
  } catch (error) {
    if (!(error instanceof SetupError)) throw error;
    stopSignal()?.throwIfAborted();
    return error.message.split('\n').at(-1);
  }
}

const remedy = () =>
  `Install Go ${versions.goMinimum} or newer (https://go.dev/dl) to have Temporal built; or set PLATFORM_TEMPORAL_DOWNLOAD to a mirror of its releases,\n` +
  'or TEMPORAL_ADDRESS to a Temporal server that you have. The next start goes on from here.';
