import { createHash } from 'node:crypto';
import { existsSync, globSync, mkdirSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { bundleWorkflowCode } from '@temporalio/worker';
import { writeFileDurablySync } from '../config/durable-file.ts';
import { isOutOfSpace } from '../runtime/disk/out-of-space.ts';

const root = path.resolve(import.meta.dirname, '..');

/** Where an image of the platform has its bundle, made when the image is built. */
const imageBundles = path.join(root, 'workflows/dist');

/** `versioned`: for workers with a version; Temporal refuses from others what workflows then say about upgrades. */
type BundleKind = 'plain' | 'versioned';
const entries: Readonly<Record<BundleKind, string>> = { plain: 'index', versioned: 'versioned' };

/**
 * The workflows as one file that a worker can load. Bundling takes seconds, so the result is kept by the hash of
 * everything it is made from.
 * @param cacheDir where bundles are kept
 * @param builtDir where a bundle may lie that `buildWorkflowBundles` made
 * @returns its path
 */
export async function ensureWorkflowBundle(
  cacheDir: string,
  kind: BundleKind = 'plain',
  builtDir = imageBundles,
): Promise<string> {
  const name = fileName(kind);
  const built = path.join(builtDir, name);
  if (existsSync(built)) return built;
  const file = path.join(cacheDir, 'workflow-bundles', name);
  if (existsSync(file)) return file;
  const code = await bundle(kind);
  try {
    mkdirSync(path.dirname(file), { recursive: true });
    writeFileDurablySync(file, code);
    return file;
  } catch (error) {
    if (!isOutOfSpace(error)) throw error;
    // Without a cache the worker still starts, with a bundle for this run only.
    const own = path.join(mkdtempSync(path.join(os.tmpdir(), 'sandbox-platform-workflows-')), 'bundle.js');
    writeFileSync(own, code);
    return own;
  }
}

/** Makes the bundles that `ensureWorkflowBundle` then takes instead of making one. */
export async function buildWorkflowBundles(builtDir = imageBundles): Promise<void> {
  mkdirSync(builtDir, { recursive: true });
  for (const kind of Object.keys(entries) as BundleKind[]) {
    writeFileSync(path.join(builtDir, fileName(kind)), await bundle(kind));
  }
}

const fileName = (kind: BundleKind) => `${hashSources()}-${kind}.js`;

async function bundle(kind: BundleKind): Promise<string> {
  const { code } = await bundleWorkflowCode({
    workflowsPath: path.join(root, `workflows/${entries[kind]}.ts`),
    workflowInterceptorModules: [path.join(root, 'workflows/request-ids.ts')],
    failureConverterPath: path.join(root, 'temporal/failure-converter.cjs'),
    logger: quiet,
  });
  return code;
}

/** Of all that the workflows are made from. Worker versions have it in their names. */
export function hashSources(): string {
  const hash = createHash('sha256').update(readFileSync(path.join(root, 'package-lock.json')));
  const sources = globSync(['workflows/**/*.ts', 'domain/**/*.ts', 'temporal/*.{ts,cjs}'], { cwd: root }).sort();
  for (const source of sources) hash.update(source).update(readFileSync(path.join(root, source)));
  return hash.digest('hex').slice(0, 24);
}

const nothing = () => {};
const quiet = { log: nothing, trace: nothing, debug: nothing, info: nothing, warn: nothing, error: nothing };
