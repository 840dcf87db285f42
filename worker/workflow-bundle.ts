import { createHash } from 'node:crypto';
import { existsSync, globSync, mkdirSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { bundleWorkflowCode } from '@temporalio/worker';
import { writeFileDurablySync } from '../platform/config/durable-file.ts';
import { isOutOfSpace } from '../runtime/disk/out-of-space.ts';

const root = path.resolve(import.meta.dirname, '..');

/** The folder of the bundles in an image of the platform. They are made when the image is built. */
const imageBundles = path.join(root, 'workflows/dist');

/**
 * `versioned`: for workers with a version. Without a version, Temporal refuses workflows that declare a versioning
 * behaviour.
 */
type BundleKind = 'plain' | 'versioned';
const entries: Readonly<Record<BundleKind, string>> = { plain: 'index', versioned: 'versioned' };

/**
 * Bundles the workflows into one file for a worker. Bundling takes seconds, so the result is cached by the hash of its
 * sources.
 * @param cacheDir the folder of the cache
 * @param builtDir the folder of the bundles that `buildWorkflowBundles` made, if there are any
 * @returns the path of the bundle
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
    // If the cache is unusable, the worker still starts, with a bundle for this run only.
    const own = path.join(mkdtempSync(path.join(os.tmpdir(), 'sandbox-platform-workflows-')), 'bundle.js');
    writeFileSync(own, code);
    return own;
  }
}

/** Makes the bundles that `ensureWorkflowBundle` uses. */
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
    workflowInterceptorModules: ['request-ids', 'cancellation', 'update-expiry'].map((name) =>
      path.join(root, `workflows/${name}.ts`),
    ),
    failureConverterPath: path.join(root, 'platform/temporal/failure-converter.cjs'),
    logger: quiet,
  });
  return code;
}

/** The hash of all sources of the workflows. It is part of worker versions. */
export function hashSources(): string {
  const hash = createHash('sha256').update(readFileSync(path.join(root, 'package-lock.json')));
  const sources = globSync(['workflows/**/*.ts', 'domain/**/*.ts', 'platform/temporal/*.{ts,cjs}'], {
    cwd: root,
  }).sort();
  for (const source of sources) hash.update(source).update(readFileSync(path.join(root, source)));
  return hash.digest('hex').slice(0, 24);
}

const nothing = () => {};
const quiet = { log: nothing, trace: nothing, debug: nothing, info: nothing, warn: nothing, error: nothing };
