import fs from 'node:fs';
import path from 'node:path';
import { lockFile } from './file-lock.mjs';
import { buildGoPrograms, findGo } from './go-programs.mjs';
import { downloadDevServer } from './temporal-dev-server.mjs';
import { temporalDevServer, temporalPrograms, versions } from './toolchain/locations.mjs';

/** @type {Record<string, [string, string]>} */
const goModules = {
  'temporal-server': ['go.temporal.io/server/cmd/server', versions.temporal.server],
  'temporal-sql-tool': ['go.temporal.io/server/cmd/tools/sql', versions.temporal.server],
  'temporal-ui-server': ['github.com/temporalio/ui-server/v2/cmd/server', versions.temporal.ui],
  temporal: ['github.com/temporalio/cli/cmd/temporal', versions.temporal.cli],
};

/**
 * Temporal: the server, its schema tool, Web UI and CLI, built once for this machine from their Go modules. Without Go,
 * the development server is downloaded instead.
 * @param {string} root
 * @returns {import('./progress.mjs').Step}
 */
export function temporal(root) {
  return {
    title: 'Temporal',
    expectation: 'about 6 minutes on two cores when it has to be built, once for this machine',
    isDone: () => fs.existsSync(temporalPrograms().dir) || fs.existsSync(temporalDevServer().dir),
    async run() {
      const programs = temporalPrograms();
      const lock = await lockFile(path.join(path.dirname(programs.dir), 'temporal.lock'), { wait: true });
      try {
        if (fs.existsSync(programs.dir)) return;
        const go = await findGo();
        if (go) await buildGoPrograms(go, programs.dir, goModules);
        else await downloadDevServer(root);
      } finally {
        await lock.release();
      }
    },
  };
}
