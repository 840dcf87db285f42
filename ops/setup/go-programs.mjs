import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { isInstalled } from '../../platform/config/programs.mjs';
import { runCommand } from './command.mjs';
import { versions } from './toolchain/locations.mjs';

/**
 * Any Go from 1.21 on, because it fetches the newer version that the modules require.
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
 * A version of a module from the module proxy: its own go.mod, and the folder with its files.
 * @param {string} go
 * @param {string} module such as `k8s.io/kubernetes@v1.34.4`
 * @returns {Promise<{goMod: string, dir: string}>}
 */
export async function goModule(go, module) {
  // Run outside of any module, so that the output is only about this module.
  const options = { cwd: os.tmpdir(), env: { ...process.env, GOWORK: 'off', GOTOOLCHAIN: 'auto' } };
  const downloaded = JSON.parse(await runCommand(go, ['mod', 'download', '-json', module], options));
  return { goMod: fs.readFileSync(downloaded.GoMod, 'utf8'), dir: downloaded.Dir };
}

/**
 * Builds programs from their Go modules into a folder that exists only when all of them are complete.
 * @param {string} go
 * @param {string} dir
 * @param {Record<string, [string, string]>} programs package and version of each, by the program's name
 * @param {{replaced?: Record<string, string>, required?: Record<string, string>, flags?: string[], linkerFlags?:
 * string, extras?: (folder: string) => Promise<void>}} [options] `replaced`: modules that replace others (`k8s.io/api`
 * → `k8s.io/api@v0.34.4`); `required`: minimum versions of modules that the programs use; `flags` of `go build`;
 * `linkerFlags`: in addition to those that strip debug information; `extras`: adds other files to the folder
 */
export async function buildGoPrograms(
  go,
  dir,
  programs,
  { replaced = {}, required = {}, flags = ['-trimpath'], linkerFlags = '', extras } = {},
) {
  const scratch = fs.mkdtempSync(path.join(os.tmpdir(), 'go-build-'));
  // Built in a temporary folder and then renamed, so that an interrupted build leaves nothing that looks complete.
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
    for (const [module, other] of Object.entries(replaced)) {
      await runCommand(go, ['mod', 'edit', '-replace', `${module}=${other}`], { cwd: scratch, env });
    }
    for (const [module, version] of Object.entries(required)) {
      await runCommand(go, ['mod', 'edit', '-require', `${module}@v${version}`], { cwd: scratch, env });
    }
    const wanted = Object.values(programs).map(([module, version]) => `${module}@v${version}`);
    await runCommand(go, ['get', '-tool', ...wanted], { cwd: scratch, env, what: 'go get' });
    for (const [name, [module]] of Object.entries(programs)) {
      console.log(`    building ${name}`);
      const output = path.join(unfinished, name);
      await runCommand(go, ['build', ...flags, '-ldflags', `-s -w ${linkerFlags}`, '-o', output, module], {
        cwd: scratch,
        env,
        what: `building ${name}`,
      });
    }
    await extras?.(unfinished);
    fs.renameSync(unfinished, dir);
  } finally {
    fs.rmSync(scratch, { recursive: true, force: true });
    fs.rmSync(unfinished, { recursive: true, force: true });
  }
}
