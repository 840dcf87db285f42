import type { ImageBlob } from '../../domain/templates/image-manifest.ts';
import { type FoundManifest, type RegistryClient, RegistryError } from './registry-client.ts';
import { discard } from './registry-http.ts';

/** Uploads the parts of an image to one repository. */
export class ImageUpload {
  readonly #client: RegistryClient;
  readonly #path: string;

  constructor(client: RegistryClient, path: string) {
    this.#client = client;
    this.#path = path;
  }

  hasBlob(digest: ImageBlob['digest'], signal: AbortSignal): Promise<boolean> {
    return this.#client.hasBlob(digest, signal);
  }

  /** The size of a blob that the repository has. */
  async sizeOfBlob(digest: ImageBlob['digest'], signal: AbortSignal): Promise<number> {
    const size = await this.#client.blobSize(digest, signal);
    if (size === null) throw new RegistryError('The registry has lost a blob', 404);
    return size;
  }

  /** Takes a blob from another repository. Copies it through this process if the registry cannot mount blobs. */
  async takeBlob(digest: string, from: string, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    if (await this.#client.mountBlob(digest, from)) return;
    throw new RegistryError('The registry mounts no blobs', 202);
  }

  /** Sends a blob in parts. The registry verifies its digest. */
  async pushBlob(digest: string, parts: AsyncIterable<Buffer> | Iterable<Buffer>, signal: AbortSignal): Promise<void> {
    let place = await this.#begin(signal);
    let sent = 0;
    for await (const part of parts) {
      const headers = {
        'content-type': 'application/octet-stream',
        'content-range': `${sent}-${sent + part.length - 1}`,
        'content-length': String(part.length),
      };
      place = await this.#send('PATCH', place, headers, part, [202, 204], signal);
      sent += part.length;
    }
    const end = `${place}${place.includes('?') ? '&' : '?'}digest=${encodeURIComponent(digest)}`;
    await this.#send('PUT', end, { 'content-length': '0' }, undefined, [201, 204], signal);
  }

  putManifest(reference: string, found: Pick<FoundManifest, 'bytes' | 'mediaType'>): Promise<void> {
    return this.#client.putManifest(reference, found);
  }

  #begin(signal: AbortSignal): Promise<string> {
    return this.#send('POST', 'blobs/uploads/', { 'content-length': '0' }, undefined, [202], signal);
  }

  /** @returns the path of the next request, below the repository */
  async #send(
    method: string,
    path: string,
    headers: Record<string, string>,
    body: Buffer | undefined,
    wanted: readonly number[],
    signal: AbortSignal,
  ): Promise<string> {
    const reply = await this.#client.send({ method, path, headers, ...(body && { body }), signal });
    discard(reply.body);
    if (!wanted.includes(reply.status)) throw new RegistryError(`The registry answers ${reply.status}`, reply.status);
    const { location = '' } = reply.headers;
    const start = `/v2/${this.#path}/`;
    const next = URL.canParse(location, 'http://registry') ? new URL(location, 'http://registry') : null;
    if (method === 'PUT') return path;
    if (!next?.pathname.startsWith(start))
      throw new RegistryError('The registry takes uploads elsewhere', reply.status);
    return `${next.pathname.slice(start.length)}${next.search}`;
  }
}
