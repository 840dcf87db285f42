import fs from 'node:fs';
import path from 'node:path';
import { lockFile } from '../setup/file-lock.mjs';
import { buildGoPrograms, findGo, removeGoCaches } from '../setup/go-programs.mjs';
import { registryModules } from '../setup/registry-program.mjs';
import { temporalModules } from '../setup/temporal-programs.mjs';
import { cacheDir, temporalPrograms, versions } from '../setup/toolchain/locations.mjs';

/** A folder with programs that were built from Go modules. */
export interface BuiltPrograms {
  /** Names all versions, also that of Go. */
  name: string;
  folder: string;
}

type Modules = Record<string, [string, string]>;

/**
 * Builds the Go programs of a release, and the one that lists its parts, once for this machine. The version of Go is fixed,
 * so that the bytes are the same everywhere.
 * @throws {Error} when there is no Go
 */
export async function buildPrograms(): Promise<Record<'temporal' | 'registry' | 'syft', BuiltPrograms>> {
  const { go, registry, syft } = versions;
  const all = {
    temporal: { name: path.basename(temporalPrograms().dir), modules: temporalModules },
    registry: { name: `registry-${registry}-${process.arch}`, modules: registryModules },
    syft: { name: `syft-${syft}-${process.arch}`, modules: syftModules },
  };
  const made = path.join(cacheDir(), 'release', `go${go}`);
  const folderOf = (name: string) => path.join(made, name);
  const lock = await lockFile(path.join(made, 'lock'), { wait: true });
  try {
    for (const { name, modules } of Object.values(all)) {
      if (!fs.existsSync(folderOf(name))) await build(folderOf(name), modules);
    }
  } finally {
    await removeGoCaches();
    await lock.release();
  }
  const built = Object.entries(all).map(([key, { name }]) => [key, { name, folder: folderOf(name) }]);
  return Object.fromEntries(built) as Record<keyof typeof all, BuiltPrograms>;
}

const syftModules: Modules = { syft: ['github.com/anchore/syft/cmd/syft', versions.syft] };

async function build(folder: string, modules: Modules): Promise<void> {
  const go = await findGo();
  if (!go) throw new Error(`A release is built with Go ${versions.goMinimum} or newer: https://go.dev/dl`);
  await buildGoPrograms(go, folder, modules, { toolchain: `go${versions.go}` });
}
