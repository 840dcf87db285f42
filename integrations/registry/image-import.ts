import { randomBytes } from 'node:crypto';
import { listBlobs } from '../../domain/templates/image-manifest.ts';
import type { ImageReference } from '../../domain/templates/image-reference.ts';
import type { Settings } from '../../platform/config/settings.ts';
import { type ExternalImage, findExternalImage, hasZstdLayers, UnusableImageError } from './external-image.ts';
import { ExternalRegistries } from './external-registries.ts';
import { ImportSource } from './import-source.ts';
import type { PlatformRegistry, StoredImage } from './platform-registry.ts';
import { type RegistryCredentials, RegistryError } from './registry-client.ts';
import { SkopeoError, skopeoCopy } from './skopeo.ts';

/** The progress of a copy. */
export interface ImportProgress {
  /** The bytes of the blobs that are at the target or in transit. */
  bytesDone: number;
  bytesTotal: number;
  blobsDone: number;
  blobsTotal: number;
  /** Bytes that this attempt has read, including repeated ones. */
  bytesRead: number;
  /** Bytes that this attempt has sent to the platform's registry. */
  bytesSent: number;
}

export interface ImportOptions {
  reference: ImageReference;
  credentials: RegistryCredentials | null;
  to: { path: string; tag: string };
  /** Called with the size before anything is copied. It throws to refuse the image. */
  onFound(image: ExternalImage): Promise<void>;
  onProgress(progress: ImportProgress): void;
  onLine(line: string): void;
  signal: AbortSignal;
}

/** The platform's own registry failed. The external image may be fine. */
export class TargetError extends Error {
  override name = 'TargetError';
}

const progressMs = 500;
/**
 * A copy may send this multiple of the image's size, and this many bytes more. Layers that are converted from zstd to
 * gzip grow, and a hostile layer grows without limit.
 */
const growth = { factor: 4, bytes: 1024 ** 3 };

/** Copies images from external registries to the platform's registry. */
export class ImageImports {
  readonly #registry: PlatformRegistry;
  readonly #external: ExternalRegistries;
  readonly #growth: typeof growth;

  /** @param sandboxNetworks the networks of all hosts, as CIDR */
  constructor(
    settings: Settings,
    registry: PlatformRegistry,
    sandboxNetworks: () => Promise<readonly string[]>,
    maxGrowth = growth,
  ) {
    this.#registry = registry;
    this.#growth = maxGrowth;
    this.#external = new ExternalRegistries(settings, sandboxNetworks);
  }

  /**
   * Copies an image. Blobs that the target already has are not copied again.
   * @throws {UnusableImageError | ForbiddenAddressError} when no attempt can succeed
   * @throws {RegistryError | TargetError | SkopeoError} when another attempt may succeed
   */
  async copy(options: ImportOptions): Promise<StoredImage> {
    const { reference, credentials, to, signal } = options;
    const client = await this.#external.createClient(reference, credentials, signal);
    const image = await findExternalImage(client, reference, signal);
    await options.onFound(image);
    const there = await atTarget(() => this.#registry.blobsThere(to.path, listBlobs(image.manifest), signal));
    if (there.size > 0) options.onLine(`${there.size} blobs are in the registry already and are not copied again`);
    const password = randomBytes(24).toString('base64url');
    const own = { username: 'import', password };
    const authorization = `Basic ${Buffer.from(`import:${password}`).toString('base64')}`;
    const source = await ImportSource.open(client, image.found, authorization, signal);
    let bytesSent = 0;
    const report = () => options.onProgress({ ...computeProgress(image, source, there), bytesSent });
    const reporting = setInterval(report, progressMs);
    try {
      const digest = await skopeoCopy({
        from: source.reference,
        to: `${this.#registry.address}/${to.path}:${to.tag}`,
        credentials: new Map([
          [source.address, own],
          ...(this.#registry.credentials ? [[this.#registry.address, this.#registry.credentials] as const] : []),
        ]),
        toPlainHttp: this.#registry.origin.startsWith('http:'),
        toCa: this.#registry.ca,
        asGzip: hasZstdLayers(image.manifest),
        maxBytesSent: this.#growth.factor * image.sizeBytes + this.#growth.bytes,
        onSent: (bytes) => {
          bytesSent = bytes;
        },
        // An upload's URL contains a state that the registry has signed, so it is not logged.
        onLine: (line) =>
          options.onLine(line.replaceAll(source.address, reference.registry).replace(/\?[^\s"\\]+/g, '')),
        signal,
      });
      const stored = await atTarget(() => this.#registry.measure(to.path, digest, signal));
      if (!stored) throw new TargetError('The registry of the platform does not have the image that was copied');
      if (stored.wrongSize) throw new UnusableImageError(stored.wrongSize);
      return stored;
    } catch (error) {
      signal.throwIfAborted();
      if (error instanceof SkopeoError && source.failure instanceof Error) throw source.failure;
      throw error;
    } finally {
      clearInterval(reporting);
      report();
      await source.close();
    }
  }

  close(): void {
    this.#external.close();
  }
}

async function atTarget<Value>(work: () => Promise<Value>): Promise<Value> {
  try {
    return await work();
  } catch (cause) {
    if (cause instanceof RegistryError) throw new TargetError('The registry of the platform fails', { cause });
    throw cause;
  }
}

function computeProgress({ manifest }: ExternalImage, source: ImportSource, there: ReadonlySet<string>) {
  const progress = { bytesDone: 0, bytesTotal: 0, blobsDone: 0, blobsTotal: 0, bytesRead: source.bytesRead };
  for (const { digest, size } of listBlobs(manifest)) {
    const done = there.has(digest) ? size : Math.min(size, source.countRead(digest));
    progress.bytesDone += done;
    progress.bytesTotal += size;
    progress.blobsDone += Number(done === size);
    progress.blobsTotal += 1;
  }
  return progress;
}
