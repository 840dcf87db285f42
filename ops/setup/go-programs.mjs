import fs from 'node:fs';
import path from 'node:path';
import { isInstalled } from '../../platform/config/programs.mjs';
import { runCommand } from './command.mjs';
import { LockHeldError, lockFile } from './file-lock.mjs';
import { report } from './progress.mjs';
import { cacheDir, versions } from './toolchain/locations.mjs';

/** The disk space that builds need, most of it until the end of set-up only. That for Kubernetes is an estimate. */
export const buildDisk = { temporalMb: 3500, registryMb: 1500, s3TestServerMb: 900, kubernetesMb: 12_000 };

/** The folders of Go's caches of this set-up, which all of its builds share. Undefined until the first build. */
let caches;

/**
 * Modules and compiled packages of a build have many times the size of the programs, so they are in folders of their own
 * and removed at the end. They are not in `/tmp`, which is in memory on many machines.
 */
function openCaches() {
  caches ??= (async () => {
    const above = path.join(cacheDir(), 'go');
    fs.mkdirSync(above, { recursive: true });
    const opening = await lockFile(path.join(cacheDir(), 'locks', 'go.lock'), { wait: true });
    try {
      // A set-up that was killed leaves its folder. Its lock is free then.
      for (const name of fs.readdirSync(above)) await removeCaches(path.join(above, name));
      const dir = fs.mkdtempSync(path.join(above, 'build-'));
      const lock = await lockFile(path.join(dir, 'lock'), { wait: false });
      for (const name of ['modules', 'compiled', 'scratch']) fs.mkdirSync(path.join(dir, name));
      return { dir, lock };
    } finally {
      await opening.release();
    }
  })();
  return caches;
}

/** @param {string} dir not removed if another set-up uses it */
async function removeCaches(dir) {
  try {
    const lock = await lockFile(path.join(dir, 'lock'), { wait: false });
    fs.rmSync(dir, { recursive: true, force: true });
    await lock.release();
  } catch (error) {
    if (!(error instanceof LockHeldError)) throw error;
  }
}

/** Removes what builds of Go programs have left. Call it when no build runs. */
export async function removeGoCaches() {
  if (!caches) return;
  const { dir, lock } = await caches;
  caches = undefined;
  fs.rmSync(dir, { recursive: true, force: true });
  await lock.release();
}

/**
 * A folder for temporary files of builds, and the environment of Go's commands.
 * @param {string} [toolchain] the version of Go. By default any that the modules allow
 */
async function goBuild(toolchain = 'auto') {
  const { dir } = await openCaches();
  return {
    scratch: path.join(dir, 'scratch'),
    env: {
      ...process.env,
      GOMODCACHE: path.join(dir, 'modules'),
      GOCACHE: path.join(dir, 'compiled'),
      CGO_ENABLED: '0',
      GOTOOLCHAIN: toolchain,
      GOWORK: 'off',
      // Go makes folders of modules read-only by default, so that only root could remove them.
      GOFLAGS: '-mod=mod -modcacherw -buildvcs=false',
    },
  };
}

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
    report(`Go ${major}.${minor} is older than ${versions.goMinimum}`);
  }
  return undefined;
}

/**
 * A version of a module from the module proxy: its own go.mod, and the folder with its files until the end of set-up.
 * @param {string} go
 * @param {string} module such as `k8s.io/kubernetes@v1.34.4`
 * @returns {Promise<{goMod: string, dir: string}>}
 */
export async function goModule(go, module) {
  const { scratch, env } = await goBuild();
  // Run outside of any module, so that the output is only about this module.
  const options = { cwd: scratch, env: { ...env, GOFLAGS: '-modcacherw' } };
  const downloaded = JSON.parse(await runCommand(go, ['mod', 'download', '-json', module], options));
  return { goMod: fs.readFileSync(downloaded.GoMod, 'utf8'), dir: downloaded.Dir };
}

/**
 * Builds programs from their Go modules into a folder that exists only when all of them are complete.
 * @param {string} go
 * @param {string} dir
 * @param {Record<string, [string, string]>} programs package and version of each, by the program's name
 * @param {{replaced?: Record<string, string>, required?: Record<string, string>, linkerFlags?: string, toolchain?: string,
 * extras?: (folder: string) => Promise<void>}} [options] `replaced`: modules that replace others (`k8s.io/api` → `k8s.io/api@v0.34.4`);
 * `required`: minimum versions of modules that the programs use; `linkerFlags`: in addition to those that strip debug
 * information; `toolchain`: the exact version of Go (`go1.26.8`), with which the same modules give the same bytes;
 * `extras`: adds other files to the folder
 */
export async function buildGoPrograms(
  go,
  dir,
  programs,
  { replaced = {}, required = {}, linkerFlags = '', toolchain, extras } = {},
) {
  const build = await goBuild(toolchain);
  const { env } = build;
  const scratch = fs.mkdtempSync(path.join(build.scratch, 'programs-'));
  // Built in a temporary folder and then renamed, so that an interrupted build leaves nothing that looks complete.
  const unfinished = `${dir}.unfinished`;
  try {
    fs.rmSync(unfinished, { recursive: true, force: true });
    fs.mkdirSync(unfinished, { recursive: true });
    fs.writeFileSync(path.join(scratch, 'go.mod'), 'module toolchain.invalid/programs\n\ngo 1.24\n');
    report('fetching its Go modules');
    for (const [module, other] of Object.entries(replaced)) {
      await runCommand(go, ['mod', 'edit', '-replace', `${module}=${other}`], { cwd: scratch, env });
    }
    for (const [module, version] of Object.entries(required)) {
      await runCommand(go, ['mod', 'edit', '-require', `${module}@v${version}`], { cwd: scratch, env });
    }
    const wanted = Object.values(programs).map(([module, version]) => `${module}@v${version}`);
    await runCommand(go, ['get', '-tool', ...wanted], { cwd: scratch, env, what: 'go get' });
    for (const [name, [module]] of Object.entries(programs)) {
      report(`building ${name}`);
      const output = path.join(unfinished, name);
      await runCommand(go, ['build', '-trimpath', '-ldflags', `-s -w ${linkerFlags}`, '-o', output, module], {
        cwd: scratch,
        env,
        what: `building ${name}`,
      });
    }
    await extras?.(unfinished);
    fs.renameSync(unfinished, dir);
  } finally {
    fs.rmSync(unfinished, { recursive: true, force: true });
  }
}
