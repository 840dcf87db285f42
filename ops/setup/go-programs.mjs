import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { isInstalled } from '../../config/programs.mjs';
import { runCommand } from './command.mjs';
import { versions } from './toolchain/locations.mjs';

/**
 * Any Go from 1.21 on will do: it fetches the newer one that the modules ask for by itself.
 * @returns {Promise<string | undefined>}
 */
export async function findGo() {
  for (const go of ['go', '/usr/local/go/bin/go']) {
    if (!isInstalled(go)) continue;
    const [, major, minor] = /go(\d+)\.(\d+)/.exec(await runCommand(go, ['version'])) ?? [];
    const [wantedMajor, wantedMinor] = versions.goMinimum.split('.').map(Number);
    if (Number(major) > wantedMajor || (Number(major) === wantedMajor && Number(minor) >= wantedMinor)) return go;
    console.log(`    Go ${major}.${minor} is older than ${versions.goMinimum}`);
  }
  return undefined;
}

/**
 * Builds programs from their Go modules into a folder that is there only once all of them are.
 * @param {string} go
 * @param {string} dir
 * @param {Record<string, [string, string]>} programs package and version of each, by the program's name
 */
export async function buildGoPrograms(go, dir, programs) {
  const scratch = fs.mkdtempSync(path.join(os.tmpdir(), 'go-build-'));
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
    fs.writeFileSync(path.join(scratch, 'go.mod'), 'module toolchain.invalid/programs\n\ngo 1.24\n');
    console.log('    fetching its Go modules');
    const wanted = Object.values(programs).map(([module, version]) => `${module}@v${version}`);
    await runCommand(go, ['get', '-tool', ...wanted], { cwd: scratch, env, what: 'go get' });
    for (const [name, [module]] of Object.entries(programs)) {
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
