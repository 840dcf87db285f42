import { createWriteStream, readFileSync } from 'node:fs';
import { mkdir, rm } from 'node:fs/promises';
import path from 'node:path';
import { pipeline } from 'node:stream/promises';
import pLimit from 'p-limit';
import type { ImageManifest } from '../../domain/templates/image-manifest.ts';
import {
  RegistryClient,
  type RegistryCredentials,
  RegistryError,
} from '../../integrations/registry/registry-client.ts';
import { RegistryHttp } from '../../integrations/registry/registry-http.ts';
import { type ImageConfig, rootfsPath, toImageConfig } from './image-cache.ts';
import { type ImageLimits, ImageRefusedError, type LayerSource, layerInFile, unpackLayers } from './unpack-layers.ts';

/** The platform's registry in a host's settings. */
export interface HostRegistry {
  /** Host and port. */
  address: string;
  /** Use plain HTTP. Only for a registry on loopback. */
  insecureHttp: boolean;
  username: string | null;
  passwordFile: string | null;
  /** PEM. */
  caFile: string | null;
}

/** The number of layers that are downloaded in advance while one is unpacked. */
const maxConcurrentLayers = 3;
const loopback = /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])(:\d+)?$/;

/** Pulls images of the platform's registry by digest, directly into trees. */
export class RegistryPull {
  readonly #http: RegistryHttp;
  readonly #origin: string;
  readonly #credentials: RegistryCredentials | null;

  constructor({ address, insecureHttp, username, passwordFile, caFile }: HostRegistry) {
    this.#http = new RegistryHttp(caFile ? { ca: readFileSync(caFile, 'utf8') } : {});
    this.#origin = `${insecureHttp && loopback.test(address) ? 'http' : 'https'}://${address}`;
    this.#credentials =
      username && passwordFile ? { username, password: readFileSync(passwordFile, 'utf8').trim() } : null;
  }

  /**
   * Unpacks an image. The lowest layer is unpacked during its download, and the next layers are downloaded meanwhile.
   * The digests of manifest, configuration and layers are checked.
   * @throws {RegistryError} when the registry lacks the image, refuses, or is unreachable
   * @throws {ImageRefusedError} when the image is invalid
   */
  async pull(
    image: { path: string; digest: string },
    draft: string,
    limits: ImageLimits,
    callersSignal?: AbortSignal,
  ): Promise<ImageConfig> {
    const giveUp = new AbortController();
    const signal = callersSignal ? AbortSignal.any([callersSignal, giveUp.signal]) : giveUp.signal;
    const client = new RegistryClient(this.#http, { origin: this.#origin, path: image.path }, this.#credentials);
    const found = await client.manifest(image.digest, signal);
    if (!found) throw new RegistryError('The registry does not have the image', 404);
    if (found.manifest.kind !== 'image') throw new ImageRefusedError('It is a list of images for several platforms');
    const config = await client.smallBlob(found.manifest.config.digest, signal);
    const blobs = path.join(draft, 'blobs');
    await mkdir(blobs);
    const layers = fetched(client, found.manifest, blobs, signal);
    try {
      await unpackLayers(layers, rootfsPath(draft), limits, signal);
    } finally {
      giveUp.abort();
    }
    await rm(blobs, { recursive: true });
    return readConfig(config);
  }

  close(): void {
    this.#http.close();
  }
}

function fetched(
  client: RegistryClient,
  { layers }: ImageManifest,
  folder: string,
  signal: AbortSignal,
): LayerSource[] {
  const turns = pLimit(maxConcurrentLayers);
  const open = async (digest: string) => {
    const reply = await client.send({ method: 'GET', path: `blobs/${digest}`, signal });
    if (reply.status === 200) return reply.body;
    reply.body.on('error', () => {}).resume();
    throw new RegistryError('The registry does not have a layer of the image', reply.status);
  };
  return layers.map(({ digest, size }, at) => {
    if (at === 0) return { digest, size, open: () => open(digest) };
    const file = path.join(folder, `${at}`);
    const arrived = turns(async () => {
      signal.throwIfAborted();
      let seen = 0;
      const bounded = async function* (source: AsyncIterable<Buffer>) {
        for await (const chunk of source) {
          seen += chunk.length;
          // Unpacking detects a layer that is longer than its manifest says. Here such a layer must not fill the disk.
          if (seen > size + 1) return;
          yield chunk;
        }
      };
      await pipeline(await open(digest), bounded, createWriteStream(file, { mode: 0o600 }), { signal });
    });
    arrived.catch(() => {});
    return {
      digest,
      size,
      async open() {
        await arrived;
        return layerInFile(file, { digest, size }).open(signal);
      },
    };
  });
}

function readConfig(bytes: Buffer): ImageConfig {
  try {
    return toImageConfig(JSON.parse(bytes.toString('utf8')));
  } catch (error) {
    throw new ImageRefusedError('Its configuration cannot be read', { cause: error });
  }
}
