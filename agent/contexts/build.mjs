import fs from 'node:fs';
import path from 'node:path';
import { build } from 'esbuild';

const scripts = path.join(import.meta.dirname, 'kernels');

/**
 * Copies the scripts that run in the kernels' processes to the folder `out`. A sandbox has no packages of the platform,
 * so a script that needs a package is bundled with it.
 */
export async function buildKernelScripts(out) {
  const withPackages = 'node_imports.mjs';
  for (const name of fs.readdirSync(scripts)) {
    if (name === withPackages || name === '__pycache__') continue;
    fs.cpSync(path.join(scripts, name), path.join(out, name));
  }
  await build({
    entryPoints: [path.join(scripts, withPackages)],
    outfile: path.join(out, withPackages),
    bundle: true,
    platform: 'node',
    format: 'esm',
    target: 'node24',
    minify: true,
    legalComments: 'none',
    logLevel: 'warning',
  });
}
