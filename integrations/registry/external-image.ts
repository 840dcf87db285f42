import { createHash } from 'node:crypto';
import { type ImageManifest, listBlobs, sumSizes } from '../../domain/templates/image-manifest.ts';
import type { ImageReference } from '../../domain/templates/image-reference.ts';
import { ownArchitecture } from './own-architecture.ts';
import { type FoundManifest, type RegistryClient, RegistryError } from './registry-client.ts';
import { readAll } from './registry-http.ts';

/** An image that the platform cannot run, or a text that is not an image reference. Further attempts cannot succeed. */
export class UnusableImageError extends Error {
  override name = 'UnusableImageError';
}

/** The registry answers that it does not have the image. */
export class NoSuchImageError extends UnusableImageError {
  override name = 'NoSuchImageError';
}

/** The manifest of one image for this platform, with its digest. */
export interface ExternalImage {
  found: FoundManifest;
  manifest: ImageManifest;
  sizeBytes: number;
}

const maxConfigBytes = 8 * 1024 * 1024;

const configTypes = [
  'application/vnd.oci.image.config.v1+json',
  'application/vnd.docker.container.image.v1+json',
  // Some images are older than the media types.
  'application/octet-stream',
  '',
];
const layerTypes =
  /^(|application\/vnd\.oci\.image\.layer\.v1\.tar(\+gzip|\+zstd)?|application\/vnd\.docker\.image\.rootfs\.diff\.tar(\.gzip|\.zstd)?)$/;

/** Whether a layer has a compression that some hosts cannot unpack. */
export function hasZstdLayers({ layers }: ImageManifest): boolean {
  return layers.some(({ mediaType }) => mediaType.endsWith('zstd'));
}

/**
 * Finds the image for this platform.
 * @throws {UnusableImageError} when there is none
 * @throws {RegistryError} when the registry refuses or is unreachable
 */
export async function findExternalImage(
  client: RegistryClient,
  reference: ImageReference,
  signal: AbortSignal,
): Promise<ExternalImage> {
  const named = await client.manifest(reference.digest ?? reference.tag ?? 'latest', signal);
  if (!named) throw new NoSuchImageError('The registry has no such image');
  const found = named.manifest.kind === 'image' ? named : await ofThisPlatform(client, named, signal);
  const { manifest } = found;
  if (manifest.kind !== 'image') throw new UnusableImageError('The image is a list of lists of images');
  requireRunnable(manifest);
  // A list gives the platform of each image. A single image has its platform in its configuration.
  if (found === named) await requirePlatform(client, manifest, signal);
  return { found, manifest, sizeBytes: sumSizes(listBlobs(manifest)) };
}

async function ofThisPlatform(
  client: RegistryClient,
  list: FoundManifest,
  signal: AbortSignal,
): Promise<FoundManifest> {
  const { manifests } = list.manifest as Extract<FoundManifest['manifest'], { kind: 'index' }>;
  const chosen = manifests.find((each) => each.os === 'linux' && each.architecture === ownArchitecture);
  if (!chosen) {
    const there = [...new Set(manifests.map((each) => `${each.os}/${each.architecture}`))].join(', ');
    throw new UnusableImageError(
      `The image is not there for linux/${ownArchitecture}, only for ${there.slice(0, 200) || 'nothing'}`,
    );
  }
  const found = await client.manifest(chosen.digest, signal);
  if (!found) throw new UnusableImageError(`The registry does not have the image for linux/${ownArchitecture}`);
  return found;
}

function requireRunnable(manifest: ImageManifest): void {
  if (!configTypes.includes(manifest.config.mediaType)) {
    throw new UnusableImageError('The reference leads to something else than a container image');
  }
  const odd = manifest.layers.find(({ mediaType }) => !layerTypes.test(mediaType));
  if (odd) throw new UnusableImageError(`The image has a layer of an unknown kind: ${odd.mediaType.slice(0, 100)}`);
}

async function requirePlatform(client: RegistryClient, { config }: ImageManifest, signal: AbortSignal): Promise<void> {
  const reply = await client.send({ method: 'GET', path: `blobs/${config.digest}`, signal });
  const bytes = await readAll(reply.body, maxConfigBytes);
  if (reply.status !== 200) throw new RegistryError('The registry does not have the configuration of the image', 0);
  const sum = `sha256:${createHash('sha256').update(bytes).digest('hex')}`;
  if (config.digest.startsWith('sha256:') && sum !== config.digest) {
    throw new RegistryError('The configuration of the image is not the one that its digest names', 0);
  }
  const { os, architecture: made } = readConfig(bytes);
  if (os !== 'linux' || made !== ownArchitecture) {
    throw new UnusableImageError(`The image is for ${os}/${made}, and the platform runs linux/${ownArchitecture}`);
  }
}

function readConfig(bytes: Buffer): { os: string; architecture: string } {
  try {
    const config = JSON.parse(bytes.toString('utf8')) as Record<string, unknown>;
    const text = (value: unknown) => (typeof value === 'string' ? value.slice(0, 40) : 'unknown');
    return { os: text(config.os), architecture: text(config.architecture) };
  } catch {
    throw new UnusableImageError('The configuration of the image cannot be read');
  }
}
