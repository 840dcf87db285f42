import fs from 'node:fs';
import path from 'node:path';
import { lockFile } from './file-lock.mjs';
import { buildDisk, buildGoPrograms, findGo } from './go-programs.mjs';
import { SetupError, stopSignal } from './progress.mjs';
import { cacheDir, s3TestServer, versions } from './toolchain/locations.mjs';

/** @type {Record<string, [string, string]>} */
export const s3TestServerModules = {
  versitygw: ['github.com/versity/versitygw/cmd/versitygw', versions.s3TestServer],
};

/**
 * A server of the S3 protocol for tests of mounts (versitygw). It stores objects as files and checks signatures.
 * @returns {import('./progress.mjs').Step}
 */
export function s3TestServerProgram() {
  const { dir } = s3TestServer();
  return {
    title: 'S3 server for tests',
    expectation: 'about 2 minutes on two cores, once for this machine',
    disk: [{ folder: cacheDir(), mb: buildDisk.s3TestServerMb }],
    isDone: () => fs.existsSync(dir),
    async run() {
      const go = await findGo();
      if (!go) throw new SetupError(`The S3 server of the tests is built with Go ${versions.goMinimum} or newer`);
      const lock = await lockFile(path.join(path.dirname(dir), 's3-test-server.lock'), {
        wait: true,
        stop: stopSignal(),
      });
      try {
        if (fs.existsSync(dir)) return;
        await buildGoPrograms(go, dir, s3TestServerModules);
      } finally {
        await lock.release();
      }
    },
  };
}
