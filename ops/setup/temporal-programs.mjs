import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { temporalDevServer, temporalPrograms, versions } from '../toolchain/locations.mjs';
import { isOnPath, runCommand } from './command.mjs';
import { lockFile } from './file-lock.mjs';
import { downloadDevServer } from './temporal-dev-server.mjs';

const goModules = {
  'temporal-server': ['go.temporal.io/server/cmd/server', versions.temporal.server],
  'temporal-sql-tool': ['go.temporal.io/server/cmd/tools/sql', versions.temporal.server],
  'temporal-ui-server': ['github.com/temporalio/ui-server/v2/cmd/server', versions.temporal.ui],
  temporal: ['github.com/temporalio/cli/cmd/temporal', versions.temporal.cli],
};

/**
 * Temporal: the server, its schema tool, Web UI and CLI, built once for this machine from their Go modules. Where there
 * is no Go to build with, its development server is downloaded instead.
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
        if (go) await build(go, programs.dir);
        else await downloadDevServer(root);
      } finally {
        await lock.release();
      }
    },
  };
}

/**
 * Any Go from 1.21 on will do: it fetches the newer one that the modules ask for by itself.
 * @returns {Promise<string | undefined>}
 */
async function findGo() {
  for (const go of ['go', '/usr/local/go/bin/go']) {
    if (!(go === 'go' ? isOnPath(go) : fs.existsSync(go))) continue;
    const [, major, minor] = /go(\d+)\.(\d+)/.exec(await runCommand(go, ['version'])) ?? [];
    const [wantedMajor, wantedMinor] = versions.temporal.goMinimum.split('.').map(Number);
    if (Number(major) > wantedMajor || (Number(major) === wantedMajor && Number(minor) >= wantedMinor)) return go;
    console.log(`    Go ${major}.${minor} is older than ${versions.temporal.goMinimum}`);
  }
  return undefined;
}

async function build(go, dir) {
  const scratch = fs.mkdtempSync(path.join(os.tmpdir(), 'temporal-build-'));
  // Built beside its place and renamed, so that an interrupted build leaves nothing that looks whole.
  const unfinished = `${dir}.unfinished`;
  const env = {
    ...process.env,
    CGO_ENABLED: '0',
    GOTOOLCHAIN: 'auto',
    GOWORK: 'off',
    GOFLAGS: '-mod=mod -buildvcs=false',
  };
  try {
    fs.rmSync(unfinished, { recursive: true, force: true });
    fs.mkdirSync(unfinished, { recursive: true });
    fs.writeFileSync(path.join(scratch, 'go.mod'), 'module temporal.invalid/toolchain\n\ngo 1.24\n');
    console.log('    fetching its Go modules');
    const wanted = Object.values(goModules).map(([module, version]) => `${module}@v${version}`);
    await runCommand(go, ['get', '-tool', ...wanted], { cwd: scratch, env, what: 'go get' });
    for (const [name, [module]] of Object.entries(goModules)) {
      console.log(`    building ${name}`);
      const output = path.join(unfinished, name);
      await runCommand(go, ['build', '-trimpath', '-ldflags', '-s -w', '-o', output, module], {
        cwd: scratch,
        env,
        what: `building ${name}`,
      });
    }
    fs.renameSync(unfinished, dir);
  } finally {
    fs.rmSync(scratch, { recursive: true, force: true });
    fs.rmSync(unfinished, { recursive: true, force: true });
  }
}
