import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { type ImageBlob, type ImageManifest, sumSizes } from '../../domain/templates/image-manifest.ts';
import { ownArchitecture } from './own-architecture.ts';
import type { PlatformRegistry, StoredImage } from './platform-registry.ts';

/** A layer stored in a file. */
interface LayerFile extends ImageBlob {
  file: string;
  mediaType: string;
  /** The digest of the archive before its compression. */
  diffId: string;
}

const configType = 'application/vnd.oci.image.config.v1+json';
const manifestType = 'application/vnd.oci.image.manifest.v1+json';
/** The size of each request of an upload, which is also the memory that an upload uses. */
const chunkBytes = 16 * 1024 * 1024;

/**
 * Pushes an image that consists of another image of the same registry and one more layer, or of that layer alone. Blobs
 * that the repository already has are not sent again. The manifest is sent last, so the image is invisible until then.
 */
export async function pushImage(
  registry: PlatformRegistry,
  image: {
    base: { path: string; digest: string } | null;
    /** The `config` of the image's configuration if there is no base. */
    config?: object;
    layer: LayerFile;
    to: { path: string; tag: string };
  },
  signal: AbortSignal,
): Promise<StoredImage> {
  const { base, layer, to } = image;
  const below = base ? await registry.read(base.path, base.digest, signal) : emptyImage(image.config ?? {});
  const config = Buffer.from(JSON.stringify(withLayer(below.config, layer)));
  const configBlob = { digest: `sha256:${createHash('sha256').update(config).digest('hex')}`, size: config.length };
  const target = registry.uploadTo(to.path, base ? [base.path] : []);
  const layersBelow: typeof below.layers = [];
  for (const { digest, mediaType } of below.layers) {
    signal.throwIfAborted();
    if (!(await target.hasBlob(digest, signal))) await target.takeBlob(digest, base!.path, signal);
    // The manifest of the base may have been written by its user.
    layersBelow.push({ digest, mediaType, size: await target.sizeOfBlob(digest, signal) });
  }
  if (!(await target.hasBlob(layer.digest, signal))) {
    await target.pushBlob(layer.digest, createReadStream(layer.file, { highWaterMark: chunkBytes }), signal);
  }
  if (!(await target.hasBlob(configBlob.digest, signal))) await target.pushBlob(configBlob.digest, [config], signal);
  const layers = [...layersBelow, { mediaType: layer.mediaType, digest: layer.digest, size: layer.size }];
  const manifest = {
    schemaVersion: 2,
    mediaType: manifestType,
    config: { mediaType: configType, ...configBlob },
    layers: layers.map(({ mediaType, digest, size }) => ({ mediaType: asOci(mediaType), digest, size })),
  };
  const bytes = Buffer.from(JSON.stringify(manifest));
  await target.putManifest(to.tag, { bytes, mediaType: manifestType });
  const blobs = [configBlob, ...layers.map(({ digest, size }) => ({ digest, size }))];
  const distinct = [...new Map(blobs.map((each) => [each.digest, each])).values()];
  return {
    digest: `sha256:${createHash('sha256').update(bytes).digest('hex')}`,
    blobs: distinct,
    sizeBytes: sumSizes(distinct),
    wrongSize: null,
  };
}

interface ImageConfigDocument {
  rootfs?: { diff_ids?: unknown[] };
  history?: unknown[];
  [other: string]: unknown;
}

function emptyImage(config: object): { config: ImageConfigDocument; layers: ImageManifest['layers'] } {
  return { config: { architecture: ownArchitecture, os: 'linux', config, rootfs: { diff_ids: [] } }, layers: [] };
}

function withLayer(config: ImageConfigDocument, { diffId }: LayerFile): object {
  const { rootfs, history } = config;
  return {
    ...config,
    rootfs: { type: 'layers', diff_ids: [...(rootfs?.diff_ids ?? []), diffId] },
    ...(history && { history: [...history, { created_by: 'create-template' }] }),
  };
}

/** All media types of one manifest must be of one kind. The OCI type and the Docker type describe the same content. */
function asOci(mediaType: string): string {
  const [, compression] =
    /^application\/vnd\.docker\.image\.rootfs\.diff\.tar(?:\.(gzip|zstd))?$/.exec(mediaType) ?? [];
  if (compression) return `application/vnd.oci.image.layer.v1.tar+${compression}`;
  return mediaType.startsWith('application/vnd.docker.') ? 'application/vnd.oci.image.layer.v1.tar' : mediaType;
}
