import fs from 'node:fs';
import path from 'node:path';
import { findExecutable } from '../../process/find-executable.ts';
import type { KernelStart } from '../kernel.ts';

/** A `kernel.json`, which describes how to start a Jupyter kernel. */
export interface KernelSpec {
  /** Lower case. */
  language: string;
  /** Contains `{connection_file}` in the place of its path. */
  argv: string[];
  env: Record<string, string>;
  interruptMode: 'signal' | 'message';
  /** The folder of the `kernel.json`. */
  folder: string;
}

/**
 * The kernel specs of this sandbox in Jupyter's order: from `JUPYTER_PATH`, the user's, from each Python on PATH, the
 * system's.
 */
export function findKernelSpecs(start: Pick<KernelStart, 'env' | 'searchPath'>): KernelSpec[] {
  const specs: KernelSpec[] = [];
  for (const folder of new Set(jupyterFolders(start))) {
    const kernels = path.join(folder, 'kernels');
    for (const name of listFolder(kernels)) {
      const spec = readKernelSpec(path.join(kernels, name));
      if (spec) specs.push(spec);
    }
  }
  return specs;
}

function jupyterFolders({ env, searchPath }: Pick<KernelStart, 'env' | 'searchPath'>): string[] {
  const folders = (env.JUPYTER_PATH ?? '').split(':').filter(Boolean);
  const dataHome = env.XDG_DATA_HOME ?? (env.HOME && path.join(env.HOME, '.local/share'));
  const userData = env.JUPYTER_DATA_DIR ?? (dataHome && path.join(dataHome, 'jupyter'));
  if (userData) folders.push(userData);
  const python = findExecutable('python3', searchPath);
  if (python) folders.push(path.join(path.dirname(path.dirname(python)), 'share/jupyter'));
  return [...folders, '/usr/local/share/jupyter', '/usr/share/jupyter'];
}

function listFolder(folder: string): string[] {
  try {
    return fs.readdirSync(folder).sort();
  } catch {
    return []; // Most of these folders do not exist.
  }
}

/** The spec in `folder`. Undefined when it is missing or unreadable; Jupyter ignores such folders too. */
function readKernelSpec(folder: string): KernelSpec | undefined {
  try {
    const given = JSON.parse(fs.readFileSync(path.join(folder, 'kernel.json'), 'utf8'));
    if (!Array.isArray(given.argv) || given.argv.length === 0) return undefined;
    return {
      language: String(given.language).toLowerCase(),
      argv: given.argv.map(String),
      env: given.env ?? {},
      interruptMode: given.interrupt_mode === 'message' ? 'message' : 'signal',
      folder,
    };
  } catch {
    return undefined;
  }
}
