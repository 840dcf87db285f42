import { readFile, rm } from 'node:fs/promises';
import path from 'node:path';
import { readManifest } from '../../domain/templates/image-manifest.ts';
import { runCommand } from '../process/command.ts';
import { type ImageConfig, makeImageOnce, rootfsPath, toImageConfig, type UnpackedImage } from './image-cache.ts';
import { type ImageLimits, ImageRefusedError, layerInFile, unpackLayers } from './unpack-layers.ts';

export interface ImageOptions {
  cacheDir: string;
  /** `registry/repository:tag` or `registry/repository@sha256:…`. */
  reference: string;
  /** Use plain HTTP. Only for a registry on loopback. */
  registryInsecureHttp?: boolean;
  limits?: ImageLimits | undefined;
  signal?: AbortSignal;
}

/** Larger than every common image, and too small to fill a host. */
export const defaultImageLimits: ImageLimits = { maxBytes: 32 * 1024 ** 3, maxFiles: 2_000_000 };

/**
 * The unpacked image of a reference. A digest in the cache needs no network. A tag is resolved each time, because it
 * may have moved. Many processes may call this at the same time.
 * @throws {CommandError} when the registry refuses or the image cannot be unpacked
 */
export async function ensureImage(options: ImageOptions): Promise<UnpackedImage> {
  const { cacheDir, reference, signal } = options;
  const source = `docker://${reference}`;
  const tls = usesPlainHttp(options) ? ['--tls-verify=false'] : [];
  const digest =
    /@(sha256:[0-9a-f]{64})$/.exec(reference)?.[1] ??
    (await runCommand('skopeo', ['inspect', ...tls, '--format', '{{.Digest}}', source], { signal })).trim();
  if (!/^sha256:[0-9a-f]{64}$/.test(digest)) throw new Error(`the registry gave no digest for ${reference}`);
  const pinned = source.replace(/(:[^:/@]+)?(@sha256:[0-9a-f]{64})?$/, `@${digest}`);
  return makeImageOnce({ cacheDir, digest, make: (draft) => unpack(pinned, draft, options), signal });
}

async function unpack(source: string, draft: string, options: ImageOptions): Promise<ImageConfig> {
  const layout = path.join(draft, 'layout');
  const tls = usesPlainHttp(options) ? ['--src-tls-verify=false'] : [];
  const { signal } = options;
  await runCommand('skopeo', ['copy', '--quiet', ...tls, source, `oci:${layout}:image`], { signal });
  const read = async (...names: string[]) => readFile(path.join(layout, ...names));
  const { manifests } = JSON.parse((await read('index.json')).toString('utf8'));
  const blobPath = (digest: string) => path.join('blobs', ...digest.split(':'));
  const manifest = readManifest(await read(blobPath(manifests[0].digest)), '');
  if (manifest.kind !== 'image') throw new ImageRefusedError('The image is a list of lists of images');
  const layers = manifest.layers.map((each) => layerInFile(path.join(layout, blobPath(each.digest)), each));
  await unpackLayers(layers, rootfsPath(draft), options.limits ?? defaultImageLimits, signal);
  const config = toImageConfig(JSON.parse((await read(blobPath(manifest.config.digest))).toString('utf8')));
  await rm(layout, { recursive: true });
  return config;
}

const loopbackRegistry = /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])(:\d+)?\//;
const usesPlainHttp = (options: ImageOptions) =>
  options.registryInsecureHttp === true && loopbackRegistry.test(options.reference);
