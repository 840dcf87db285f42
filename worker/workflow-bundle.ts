import { createHash } from 'node:crypto';
import { existsSync, globSync, mkdirSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { bundleWorkflowCode } from '@temporalio/worker';
import { writeFileDurablySync } from '../config/durable-file.ts';
import { isOutOfSpace } from '../runtime/disk/out-of-space.ts';

const root = path.resolve(import.meta.dirname, '..');

/**
 * The workflows as one file that a worker can load. Bundling takes seconds, so the result is kept by the hash of
 * everything it is made from.
 * @param cacheDir where bundles are kept
 * @returns its path
 */
export async function ensureWorkflowBundle(cacheDir: string): Promise<string> {
  const file = path.join(cacheDir, 'workflow-bundles', `${hashSources()}.js`);
  if (existsSync(file)) return file;
  const { code } = await bundleWorkflowCode({
    workflowsPath: path.join(root, 'workflows/index.ts'),
    failureConverterPath: path.join(root, 'temporal/failure-converter.cjs'),
    logger: quiet,
  });
  try {
    mkdirSync(path.dirname(file), { recursive: true });
    writeFileDurablySync(file, code);
    return file;
  } catch (error) {
    if (!isOutOfSpace(error)) throw error;
    // Without a cache the worker starts all the same, for this once.
    const own = path.join(mkdtempSync(path.join(os.tmpdir(), 'sandbox-platform-workflows-')), 'bundle.js');
    writeFileSync(own, code);
    return own;
  }
}

function hashSources(): string {
  const hash = createHash('sha256').update(readFileSync(path.join(root, 'package-lock.json')));
  const sources = globSync(['workflows/**/*.ts', 'domain/**/*.ts', 'temporal/*.{ts,cjs}'], { cwd: root }).sort();
  for (const source of sources) hash.update(source).update(readFileSync(path.join(root, source)));
  return hash.digest('hex').slice(0, 24);
}

const nothing = () => {};
const quiet = { log: nothing, trace: nothing, debug: nothing, info: nothing, warn: nothing, error: nothing };
