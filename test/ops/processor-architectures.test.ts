import { existsSync, globSync, readFileSync } from 'node:fs';
import path from 'node:path';

const root = path.join(import.meta.dirname, '../..');
const { packages } = JSON.parse(readFileSync(path.join(root, 'package-lock.json'), 'utf8')) as {
  packages: Record<string, { version?: string; os?: string[]; cpu?: string[]; libc?: string[] }>;
};

/** A package with programs for Linux on one architecture, where glibc is the C library. */
const isFor = (folder: string, architecture: string) => {
  const { os, cpu, libc } = packages[folder]!;
  return os?.includes('linux') && cpu?.includes(architecture) && (libc?.includes('glibc') ?? true);
};

test('every npm package with programs for x86-64 has the same version with programs for ARM64', () => {
  const forX64 = Object.keys(packages).filter((folder) => isFor(folder, 'x64') && !folder.includes('musl'));
  expect(forX64.length).toBeGreaterThan(10);
  const withoutArm64 = forX64.filter((folder) => {
    const others = ['arm64', 'aarch64'].map((name) => folder.replace('x64', name));
    return !others.some((other) => packages[other]?.version === packages[folder]!.version && isFor(other, 'arm64'));
  });
  expect(withoutArm64).toEqual([]);
});

test('every other npm package with a program for x86-64 contains it for ARM64 too', () => {
  const addons = globSync('node_modules/**/*.node', { cwd: root }).filter((file) => !/[-_](x64|arm64)\b/.test(file));
  expect(addons.length).toBeGreaterThan(1);
  const forX64 = addons.filter((file) => !/darwin|windows|win32|aarch64/.test(file));
  expect(forX64.length).toBeGreaterThan(0);
  const withoutArm64 = forX64.filter((file) => {
    const other = file.replace('x86_64', 'aarch64');
    return other === file || !existsSync(path.join(root, other));
  });
  expect(withoutArm64).toEqual([]);
});

test('the scripts of npm packages with programs are allowed on both architectures', () => {
  const { allowScripts } = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8')) as {
    allowScripts: Record<string, boolean>;
  };
  const allowed = (architecture: string) =>
    Object.keys(allowScripts)
      .filter((name) => name.endsWith(architecture))
      .map((name) => [name.slice(0, -architecture.length), allowScripts[name]]);
  expect(allowed('x64').length).toBeGreaterThan(0);
  expect(allowed('arm64')).toEqual(allowed('x64'));
});
