import { z } from 'zod';

/** A blob of an image: a layer or the configuration. */
export interface ImageBlob {
  /** `sha256:…` or `sha512:…`. */
  digest: string;
  size: number;
}

/** A manifest of one image for one platform. */
export interface ImageManifest {
  kind: 'image';
  mediaType: string;
  config: ImageBlob & { mediaType: string };
  layers: (ImageBlob & { mediaType: string })[];
}

/** A list of manifests for several platforms. */
export interface ImageIndex {
  kind: 'index';
  mediaType: string;
  manifests: { digest: string; size: number; os: string; architecture: string; variant: string | null }[];
}

/** Media types to ask a registry for. */
export const manifestMediaTypes = [
  'application/vnd.oci.image.index.v1+json',
  'application/vnd.oci.image.manifest.v1+json',
  'application/vnd.docker.distribution.manifest.list.v2+json',
  'application/vnd.docker.distribution.manifest.v2+json',
] as const;

/** Docker makes fewer layers. Overlayfs does not limit the number, because layers are unpacked into one tree. */
const maxLayers = 500;
const maxManifests = 200;

const digest = z.string().regex(/^sha(256:[0-9a-f]{64}|512:[0-9a-f]{128})$/);
const blob = z.object({ digest, size: z.int().min(0), mediaType: z.string().max(255).default('') });
const imageSchema = z.object({
  mediaType: z.string().optional(),
  config: blob,
  layers: z.array(blob.extend({ urls: z.array(z.string()).optional() })).max(maxLayers),
});
const indexSchema = z.object({
  mediaType: z.string().optional(),
  manifests: z
    .array(
      z.object({
        digest,
        size: z.int().min(0),
        platform: z.object({ os: z.string(), architecture: z.string(), variant: z.string().nullish() }).optional(),
      }),
    )
    .max(maxManifests),
});

/**
 * Reads a manifest of Docker's version 2 or of OCI, or a list of manifests.
 * @param contentType the type in the registry's reply, for a manifest without a media type
 * @throws {SyntaxError} for anything else, such as a manifest of version 1
 */
export function readManifest(bytes: Uint8Array, contentType: string): ImageManifest | ImageIndex {
  const document: unknown = JSON.parse(Buffer.from(bytes).toString('utf8'));
  const asIndex = indexSchema.safeParse(document);
  if (asIndex.success) {
    return {
      kind: 'index',
      mediaType: asIndex.data.mediaType ?? contentType,
      manifests: asIndex.data.manifests.map(({ platform, ...each }) => ({
        ...each,
        os: platform?.os ?? 'unknown',
        architecture: platform?.architecture ?? 'unknown',
        variant: platform?.variant ?? null,
      })),
    };
  }
  const asImage = imageSchema.safeParse(document);
  if (!asImage.success) throw new SyntaxError('is not an image manifest of Docker 1.10 or later, or of OCI');
  const { config, layers, mediaType } = asImage.data;
  if (new Set([config, ...layers].map((each) => `${each.digest} ${each.size}`)).size > blobsIn(config, layers).length) {
    throw new SyntaxError('gives one layer two sizes');
  }
  if (layers.some(({ urls }) => urls !== undefined && urls.length > 0)) {
    throw new SyntaxError('has layers that lie outside of its registry');
  }
  return { kind: 'image', mediaType: mediaType ?? contentType, config, layers };
}

/** The blobs of an image without duplicates, with the sizes that its manifest claims. */
export function listBlobs({ config, layers }: ImageManifest): ImageBlob[] {
  return blobsIn(config, layers);
}

function blobsIn(config: ImageBlob, layers: readonly ImageBlob[]): ImageBlob[] {
  const blobs = [config, ...layers].map(({ digest, size }) => ({ digest, size }));
  return [...new Map(blobs.map((each) => [each.digest, each])).values()];
}

export function sumSizes(blobs: readonly ImageBlob[]): number {
  return blobs.reduce((sum, each) => sum + each.size, 0);
}
