import { timingSafeEqual } from 'node:crypto';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import { pipeline } from 'node:stream/promises';
import { listBlobs } from '../../domain/templates/image-manifest.ts';
import { UnusableImageError } from './external-image.ts';
import { type FoundManifest, type RegistryClient, RegistryError } from './registry-client.ts';
import { discard } from './registry-http.ts';

/** An external registry that sends fewer bytes of a blob in this time holds up the imports of others. */
const slowestPace = { bytes: 65_536, ms: 60_000 };

const passedOn = ['content-type', 'content-length', 'content-range', 'docker-content-digest', 'accept-ranges'];

/**
 * Serves one external image as a registry on loopback, from which the copying tool reads. The client behind it sends
 * all requests to the internet, so each connection is checked, and the tool knows neither the external registry nor its
 * password.
 */
export class ImportSource {
  /** The reference that the tool copies. */
  readonly reference: string;
  /** The address with a bearer token that only the tool knows. */
  readonly address: string;
  /** Bytes of blobs that were read, including repeated ones. */
  bytesRead = 0;
  /** Why the external registry did not deliver the tool's last request. */
  failure: unknown = null;
  readonly #server: http.Server;
  readonly #read = new Map<string, number>();
  /** The sizes in the manifest. The tool can only read these blobs. */
  readonly #sizes: ReadonlyMap<string, number>;
  readonly #pace: typeof slowestPace;

  private constructor(server: http.Server, { digest, manifest }: FoundManifest, pace: typeof slowestPace) {
    this.#server = server;
    this.#pace = pace;
    this.address = `127.0.0.1:${(server.address() as AddressInfo).port}`;
    this.reference = `${this.address}/image@${digest}`;
    const blobs = manifest.kind === 'image' ? listBlobs(manifest) : [];
    this.#sizes = new Map(blobs.map((blob) => [blob.digest, blob.size]));
  }

  /** @param authorization the header that the tool must send */
  static async open(
    client: RegistryClient,
    found: FoundManifest,
    authorization: string,
    signal: AbortSignal,
    pace = slowestPace,
  ): Promise<ImportSource> {
    let source: ImportSource | undefined;
    const server = http.createServer((request, reply) => {
      source!.#answer(client, found, authorization, request, reply, signal).catch((error) => {
        source!.failure ??= error;
        // The tool sees a broken connection, as it would with the external registry.
        if (reply.headersSent) reply.destroy();
        else reply.writeHead(502).end();
      });
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    source = new ImportSource(server, found, pace);
    return source;
  }

  /** The highest offset that was read of a blob. */
  countRead(digest: string): number {
    return this.#read.get(digest) ?? 0;
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  async #answer(
    client: RegistryClient,
    found: FoundManifest,
    authorization: string,
    request: http.IncomingMessage,
    reply: http.ServerResponse,
    signal: AbortSignal,
  ): Promise<void> {
    if (!isSame(request.headers.authorization ?? '', authorization)) {
      reply.writeHead(401, { 'www-authenticate': 'Basic realm="import"' }).end();
      return;
    }
    const path = request.url ?? '';
    if (path === '/v2/') {
      reply.writeHead(200).end('{}');
      return;
    }
    if (path === `/v2/image/manifests/${found.digest}`) {
      const headers = { 'content-type': found.mediaType, 'docker-content-digest': found.digest };
      reply.writeHead(200, headers).end(request.method === 'HEAD' ? undefined : found.bytes);
      return;
    }
    const [, digest] = /^\/v2\/image\/blobs\/(sha\d+:[0-9a-f]+)$/.exec(path) ?? [];
    if (!digest || !this.#sizes.has(digest)) {
      reply.writeHead(404).end();
      return;
    }
    await this.#answerBlob(client, digest, request, reply, signal);
  }

  async #answerBlob(
    client: RegistryClient,
    digest: string,
    request: http.IncomingMessage,
    reply: http.ServerResponse,
    signal: AbortSignal,
  ): Promise<void> {
    const { range } = request.headers;
    const gone = new AbortController();
    reply.on('close', () => gone.abort(new Error('The copying tool has closed the connection')));
    const upstream = await client.send({
      method: request.method === 'HEAD' ? 'HEAD' : 'GET',
      path: `blobs/${digest}`,
      headers: range ? { range } : {},
      signal: AbortSignal.any([signal, gone.signal]),
    });
    const headers = passedOn.flatMap((name) => {
      const value = upstream.headers[name];
      return typeof value === 'string' ? [[name, value] as const] : [];
    });
    // Blocks redirects, challenges and all other statuses that an external registry may send.
    const status = [200, 206, 404, 416].includes(upstream.status) ? upstream.status : 502;
    if (status === 502)
      this.failure = new RegistryError(`The external registry answers ${upstream.status}`, upstream.status);
    if (status !== 200 && status !== 206) {
      discard(upstream.body);
      reply.writeHead(status).end();
      return;
    }
    reply.writeHead(status, Object.fromEntries(headers));
    const size = this.#sizes.get(digest)!;
    let at = status === 206 ? Number(/^bytes=(\d+)-/.exec(range ?? '')?.[1] ?? 0) : 0;
    const count = (chunk: Buffer) => {
      this.bytesRead += chunk.length;
      at += chunk.length;
      // The storage limits were checked with the sizes in the manifest, so a larger blob is refused.
      if (at > size) upstream.body.destroy(new UnusableImageError('A layer has more bytes than the manifest says'));
      else this.#read.set(digest, Math.max(this.countRead(digest), at));
    };
    upstream.body.on('data', count);
    let before = at;
    const pacing = setInterval(() => {
      // While the tool does not read, the registry cannot send.
      const isSlow = at - before < this.#pace.bytes && !reply.writableNeedDrain;
      if (isSlow) upstream.body.destroy(new RegistryError('The external registry sends too slowly', 0));
      before = at;
    }, this.#pace.ms);
    try {
      await pipeline(upstream.body, reply);
    } catch (error) {
      // The tool closes connections when it gives up for another reason.
      if ((error as NodeJS.ErrnoException).code === 'ERR_STREAM_PREMATURE_CLOSE') return;
      if (error instanceof UnusableImageError || error instanceof RegistryError) throw error;
      throw new RegistryError('The external registry has broken off the transfer', 0, error);
    } finally {
      clearInterval(pacing);
    }
  }
}

function isSame(given: string, expected: string): boolean {
  const [a, b] = [Buffer.from(given), Buffer.from(expected)];
  return a.length === b.length && timingSafeEqual(a, b);
}
