import { readFile, rm } from 'node:fs/promises';
import path from 'node:path';
import { runCommand } from '../process/command.ts';
import { makeImageOnce } from './make-once.ts';
import { type ImageConfig, imageConfigOf, rootfsOf, type UnpackedImage } from './unpacked-image.ts';

export interface ImageOptions {
  cacheDir: string;
  /** `registry/repository:tag` or `registry/repository@sha256:…`. */
  reference: string;
  /** Plain HTTP, only for a registry on loopback. */
  registryInsecureHttp?: boolean;
  /** Further arguments of skopeo, for a registry with a password or an authority of its own. */
  access?: RegistryAccess | undefined;
  signal?: AbortSignal;
}

/** Arguments of skopeo for one registry. */
export interface RegistryAccess {
  inspect: readonly string[];
  copyFrom: readonly string[];
}

/**
 * The image of a reference, unpacked. A digest that is in the cache costs no network; a tag is resolved each time,
 * because it may have moved. Safe to call from many processes at once.
 * @throws {CommandError} when the registry refuses or the image cannot be unpacked.
 */
export async function ensureImage(options: ImageOptions): Promise<UnpackedImage> {
  const { cacheDir, reference, signal } = options;
  const source = `docker://${reference}`;
  const tls = usesPlainHttp(options) ? ['--tls-verify=false'] : (options.access?.inspect ?? []);
  const digest =
    /@(sha256:[0-9a-f]{64})$/.exec(reference)?.[1] ??
    (await runCommand('skopeo', ['inspect', ...tls, '--format', '{{.Digest}}', source], { signal })).trim();
  if (!/^sha256:[0-9a-f]{64}$/.test(digest)) throw new Error(`the registry gave no digest for ${reference}`);
  const pinned = source.replace(/(:[^:/@]+)?(@sha256:[0-9a-f]{64})?$/, `@${digest}`);
  return makeImageOnce({ cacheDir, digest, make: (draft) => unpack(pinned, draft, options), signal });
}

async function unpack(source: string, draft: string, options: ImageOptions): Promise<ImageConfig> {
  const layout = path.join(draft, 'layout');
  const tls = usesPlainHttp(options) ? ['--src-tls-verify=false'] : (options.access?.copyFrom ?? []);
  const { signal } = options;
  await runCommand('skopeo', ['copy', '--quiet', ...tls, source, `oci:${layout}:image`], { signal });
  await runCommand('umoci', ['raw', 'unpack', '--image', `${layout}:image`, rootfsOf(draft)], { signal });
  const config = imageConfigOf(await readImageDocument(layout));
  await rm(layout, { recursive: true });
  return config;
}

async function readImageDocument(layout: string): Promise<{ config?: Record<string, unknown> }> {
  const read = async (file: string) => JSON.parse(await readFile(path.join(layout, file), 'utf8'));
  const blob = (digest: string) => read(path.join('blobs', ...digest.split(':')));
  const index = await read('index.json');
  const manifest = await blob(index.manifests[0].digest);
  return blob(manifest.config.digest);
}

const loopbackRegistry = /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])(:\d+)?\//;
const usesPlainHttp = (options: ImageOptions) =>
  options.registryInsecureHttp === true && loopbackRegistry.test(options.reference);
