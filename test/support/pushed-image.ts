import { execFileSync } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { gunzipSync, gzipSync } from 'node:zlib';
import { ownArchitecture } from '../../integrations/registry/own-architecture.ts';

export interface PushedBlob {
  bytes: Buffer;
  mediaType: string;
}

export interface PushedImage {
  digest: string;
  /** Size of the configuration and the layers. */
  sizeBytes: number;
  layers: { digest: string; size: number }[];
}

export const ociLayer = 'application/vnd.oci.image.layer.v1.tar+gzip';
const ociManifest = 'application/vnd.oci.image.manifest.v1+json';

export const computeDigest = (bytes: Buffer) => `sha256:${createHash('sha256').update(bytes).digest('hex')}`;

/** A layer with content that no other test has. */
export const anyLayer = (size = 1000): PushedBlob => ({
  bytes: gzipSync(randomBytes(size), { level: 0 }),
  mediaType: ociLayer,
});

/** Pushes a folder as an image of one layer. @returns its digest */
export async function pushTree(
  origin: string,
  path: string,
  { tree, config = {}, architecture = ownArchitecture }: { tree: string; config?: object; architecture?: string },
): Promise<string> {
  const pack = 'tar -C "$1" -c . | gzip -1';
  const bytes = execFileSync('sh', ['-c', pack, 'sh', tree], { maxBuffer: 1 << 30 });
  const rootfs = { type: 'layers', diff_ids: [computeDigest(gunzipSync(bytes))] };
  const image = { layers: [{ bytes, mediaType: ociLayer }], config: { architecture, config, rootfs } };
  return (await pushImage(origin, path, image)).digest;
}

/** Pushes an index of images that are in the same repository. */
export function pushIndex(
  origin: string,
  path: string,
  tag: string,
  images: readonly [digest: string, architecture: string][],
): Promise<unknown> {
  const manifests = images.map(([digest, architecture]) => ({
    mediaType: ociManifest,
    digest,
    size: 1,
    platform: { os: 'linux', architecture },
  }));
  const mediaType = 'application/vnd.oci.image.index.v1+json';
  return putManifest(origin, path, tag, { schemaVersion: 2, mediaType, manifests } as never);
}

/**
 * Uploads an image to a registry over its HTTP API without validation, so it may be one that no tool would make.
 * @param origin `http://127.0.0.1:<port>`
 */
export async function pushImage(
  origin: string,
  path: string,
  image: {
    layers?: PushedBlob[];
    tag?: string;
    config?: object;
    manifestType?: string;
    configType?: string;
    /** The size of a layer in the manifest. By default its true size. */
    claimed?: (size: number) => number;
  } = {},
): Promise<PushedImage> {
  const { layers = [anyLayer()], tag = 'latest', manifestType = ociManifest, claimed = (size) => size } = image;
  const config = Buffer.from(
    JSON.stringify({
      architecture: ownArchitecture,
      os: 'linux',
      rootfs: { type: 'layers', diff_ids: [] },
      ...image.config,
    }),
  );
  for (const bytes of [config, ...layers.map((layer) => layer.bytes)]) await pushBlob(origin, path, bytes);
  const described = ({ bytes, mediaType }: PushedBlob) => ({
    mediaType,
    digest: computeDigest(bytes),
    size: bytes.length,
  });
  const configType = image.configType ?? 'application/vnd.oci.image.config.v1+json';
  const manifest = {
    schemaVersion: 2,
    mediaType: manifestType,
    config: described({ bytes: config, mediaType: configType }),
    layers: layers.map(described).map((layer) => ({ ...layer, size: claimed(layer.size) })),
  };
  const digest = await putManifest(origin, path, tag, manifest);
  const sizes = [manifest.config, ...manifest.layers].map(({ size }) => size);
  return { digest, sizeBytes: sizes.reduce((sum, size) => sum + size, 0), layers: manifest.layers };
}

export async function putManifest(
  origin: string,
  path: string,
  tag: string,
  manifest: { mediaType: string },
): Promise<string> {
  const body = Buffer.from(JSON.stringify(manifest));
  const reply = await fetch(`${origin}/v2/${path}/manifests/${tag}`, {
    method: 'PUT',
    headers: { 'content-type': manifest.mediaType },
    body,
  });
  if (reply.status !== 201) throw new Error(`the manifest of ${path}: ${reply.status} ${await reply.text()}`);
  return computeDigest(body);
}

async function pushBlob(origin: string, path: string, bytes: Buffer): Promise<void> {
  const begun = await fetch(`${origin}/v2/${path}/blobs/uploads/`, { method: 'POST' });
  const place = new URL(begun.headers.get('location')!, origin);
  place.searchParams.set('digest', computeDigest(bytes));
  const reply = await fetch(place, { method: 'PUT', body: new Uint8Array(bytes) });
  if (reply.status !== 201) throw new Error(`a blob of ${path}: ${reply.status} ${await reply.text()}`);
}

/** Whether a registry has a manifest. */
export async function hasManifest(origin: string, path: string, reference: string): Promise<boolean> {
  const headers = { accept: `${ociManifest}, application/vnd.docker.distribution.manifest.v2+json` };
  const reply = await fetch(`${origin}/v2/${path}/manifests/${reference}`, { headers });
  await reply.arrayBuffer();
  return reply.status === 200;
}
