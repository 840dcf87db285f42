import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import type { Settings } from '../config/settings.ts';
import { blobsOf } from '../domain/image-manifest.ts';
import type { ImageReference } from '../domain/image-reference.ts';
import { type ExternalImage, findExternalImage, hasZstdLayers, UnusableImageError } from './external-image.ts';
import { ImportSource } from './import-source.ts';
import { OutboundGuard } from './outbound-guard.ts';
import type { PlatformRegistry, StoredImage } from './platform-registry.ts';
import { RegistryClient, type RegistryCredentials, RegistryError } from './registry-client.ts';
import { discard, RegistryHttp } from './registry-http.ts';
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
  readonly #http: RegistryHttp;
  readonly #growth: typeof growth;

  /** @param sandboxNetworks the networks of all hosts, as CIDR */
  constructor(
    settings: Settings,
    registry: PlatformRegistry,
    sandboxNetworks: () => Promise<readonly string[]>,
    mostGrowth = growth,
  ) {
    this.#registry = registry;
    this.#growth = mostGrowth;
    const { PLATFORM_IMPORT_CA_FILE: caFile } = settings;
    this.#http = new RegistryHttp({
      guard: new OutboundGuard(settings, sandboxNetworks),
      ...(caFile && { ca: readFileSync(caFile, 'utf8') }),
    });
  }

  /**
   * Copies an image. Blobs that the target already has are not copied again.
   * @throws {UnusableImageError | ForbiddenAddressError} when no attempt can succeed
   * @throws {RegistryError | TargetError | SkopeoError} when another attempt may succeed
   */
  async copy(options: ImportOptions): Promise<StoredImage> {
    const { reference, credentials, to, signal } = options;
    const client = await this.#clientOf(reference, credentials, signal);
    const image = await findExternalImage(client, reference, signal);
    await options.onFound(image);
    const there = await atTarget(() => this.#registry.blobsThere(to.path, blobsOf(image.manifest), signal));
    if (there.size > 0) options.onLine(`${there.size} blobs are in the registry already and are not copied again`);
    const password = randomBytes(24).toString('base64url');
    const own = { username: 'import', password };
    const authorization = `Basic ${Buffer.from(`import:${password}`).toString('base64')}`;
    const source = await ImportSource.open(client, image.found, authorization, signal);
    let bytesSent = 0;
    const report = () => options.onProgress({ ...progressOf(image, source, there), bytesSent });
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
        mostBytesSent: this.#growth.factor * image.sizeBytes + this.#growth.bytes,
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
    this.#http.close();
  }

  /** Uses TLS. A registry on loopback, which operators open for trials, may use plain HTTP, as with Docker. */
  async #clientOf(
    { registry, repository }: ImageReference,
    credentials: RegistryCredentials | null,
    signal: AbortSignal,
  ): Promise<RegistryClient> {
    const scheme = isLoopback(registry) && !(await this.#speaksTls(registry, signal)) ? 'http' : 'https';
    return new RegistryClient(this.#http, { origin: `${scheme}://${registry}`, path: repository }, credentials);
  }

  async #speaksTls(registry: string, signal: AbortSignal): Promise<boolean> {
    try {
      const reply = await this.#http.send(new URL(`https://${registry}/v2/`), { method: 'GET', headers: {}, signal });
      discard(reply.body);
      return true;
    } catch (error) {
      signal.throwIfAborted();
      // OpenSSL gives one of these errors for a reply in plain HTTP.
      if (/wrong version number|EPROTO|packet length too long|http request/i.test(String(error))) return false;
      return true;
    }
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

function isLoopback(registry: string): boolean {
  return /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/.test(registry.replace(/:\d+$/, ''));
}

function progressOf({ manifest }: ExternalImage, source: ImportSource, there: ReadonlySet<string>) {
  const progress = { bytesDone: 0, bytesTotal: 0, blobsDone: 0, blobsTotal: 0, bytesRead: source.bytesRead };
  for (const { digest, size } of blobsOf(manifest)) {
    const done = there.has(digest) ? size : Math.min(size, source.readOf(digest));
    progress.bytesDone += done;
    progress.bytesTotal += size;
    progress.blobsDone += Number(done === size);
    progress.blobsTotal += 1;
  }
  return progress;
}
