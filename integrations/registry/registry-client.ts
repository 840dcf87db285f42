import { createHash } from 'node:crypto';
import {
  type ImageIndex,
  type ImageManifest,
  manifestMediaTypes,
  readManifest,
} from '../../domain/templates/image-manifest.ts';
import { ForbiddenAddressError } from './outbound-guard.ts';
import { discard, type HttpReply, type RegistryHttp, readAll } from './registry-http.ts';

export interface RegistryCredentials {
  username: string;
  password: string;
}

/** An unexpected reply of a registry. */
export class RegistryError extends Error {
  override name = 'RegistryError';
  /** The status of the reply. 0: there was no reply. */
  readonly status: number;

  constructor(message: string, status: number, cause?: unknown) {
    super(message, { cause });
    this.status = status;
  }
}

export interface FoundManifest {
  digest: string;
  mediaType: string;
  bytes: Buffer;
  manifest: ImageManifest | ImageIndex;
}

interface Asked {
  method: string;
  path: string;
  headers?: Record<string, string>;
  body?: Buffer | string;
  signal?: AbortSignal | undefined;
}

const maxManifestBytes = 4 * 1024 * 1024;
const maxSmallBlobBytes = 8 * 1024 * 1024;
const maxTokenBytes = 1024 * 1024;
const maxListBytes = 4 * 1024 * 1024;
const pageSize = 500;
const maxListed = 1_000_000;
const maxRedirects = 5;

/**
 * A client of one repository of an OCI distribution registry, with the tokens that the registry asks for. Each
 * connection, including those to token servers and after redirects, is checked by the guard of `http`.
 */
export class RegistryClient {
  readonly #http: RegistryHttp;
  readonly #origin: string;
  readonly #repository: string | null;
  readonly #credentials: RegistryCredentials | null;
  readonly #scopes: string[];
  #authorization: string | null = null;

  /**
   * @param repository.origin `https://host[:port]`
   * @param repository.path null: the registry as a whole
   */
  constructor(
    http: RegistryHttp,
    repository: { origin: string; path: string | null; actions?: 'pull' | 'pull,push' | 'pull,push,delete' },
    credentials: RegistryCredentials | null,
    /** Repositories that blobs are mounted from. */
    alsoPulls: readonly string[] = [],
  ) {
    this.#http = http;
    this.#origin = repository.origin;
    this.#repository = repository.path;
    this.#credentials = credentials;
    this.#scopes = [
      repository.path === null ? 'registry:catalog:*' : `repository:${repository.path}:${repository.actions ?? 'pull'}`,
      ...alsoPulls.map((path) => `repository:${path}:pull`),
    ];
  }

  /**
   * A manifest by tag or digest. Null: it does not exist.
   * @throws {RegistryError}
   */
  async manifest(reference: string, signal?: AbortSignal): Promise<FoundManifest | null> {
    const reply = await this.send({
      method: 'GET',
      path: `manifests/${reference}`,
      headers: { accept: manifestMediaTypes.join(', ') },
      signal,
    });
    if (reply.status === 404) return drained(reply, null);
    await requireStatus(reply, [200]);
    const bytes = await readAll(reply.body, maxManifestBytes);
    const digest = `sha256:${createHash('sha256').update(bytes).digest('hex')}`;
    const claimed = reference.startsWith('sha256:') ? reference : reply.headers['docker-content-digest'];
    if (typeof claimed === 'string' && claimed.startsWith('sha256:') && claimed !== digest) {
      throw new RegistryError(`The manifest is not the one that its digest names: ${claimed}`, 200);
    }
    const mediaType = String(reply.headers['content-type'] ?? '').split(';', 1)[0]!;
    try {
      return { digest, mediaType, bytes, manifest: readManifest(bytes, mediaType) };
    } catch (error) {
      const reason = error instanceof SyntaxError ? error.message : 'cannot be read';
      throw new RegistryError(`The manifest ${reason}`, 200, error);
    }
  }

  async putManifest(reference: string, found: Pick<FoundManifest, 'bytes' | 'mediaType'>): Promise<void> {
    const headers = { 'content-type': found.mediaType };
    const reply = await this.send({ method: 'PUT', path: `manifests/${reference}`, headers, body: found.bytes });
    await requireStatus(reply, [201, 202]);
    drained(reply, null);
  }

  /** All pages of a list. Null: the registry has no such list, or this user may not read it. */
  async list(path: string, field: string): Promise<string[] | null> {
    const found: string[] = [];
    for (let query = `n=${pageSize}`; ; ) {
      const reply = await this.send({ method: 'GET', path: `${path}?${query}` }).catch((error) => {
        if (error instanceof RegistryError && error.status === 401) return null;
        throw error;
      });
      if (!reply) return null;
      if ([403, 404, 405].includes(reply.status)) return drained(reply, null);
      await requireStatus(reply, [200]);
      const items = textsIn(await readAll(reply.body, maxListBytes), field);
      found.push(...items);
      const next = /<[^>]*\?([^>]*)>;\s*rel="?next/.exec(String(reply.headers.link ?? ''))?.[1];
      // A page without new items would repeat forever.
      if (!next || items.length === 0 || found.length > maxListed) return found;
      query = next;
    }
  }

  /** Removes a manifest with its tags. A missing manifest is not an error. */
  async deleteManifest(digest: string): Promise<void> {
    const reply = await this.send({ method: 'DELETE', path: `manifests/${digest}` });
    if (reply.status !== 404) await requireStatus(reply, [200, 202]);
    drained(reply, null);
  }

  /** Reads a configuration or another small blob. @throws {RegistryError} */
  async smallBlob(digest: string, signal?: AbortSignal): Promise<Buffer> {
    const reply = await this.send({ method: 'GET', path: `blobs/${digest}`, signal });
    await requireStatus(reply, [200]);
    const bytes = await readAll(reply.body, maxSmallBlobBytes);
    const [algorithm, expected] = digest.split(':') as [string, string];
    if (createHash(algorithm).update(bytes).digest('hex') === expected) return bytes;
    throw new RegistryError(`The blob is not the one that its digest names: ${digest}`, 200);
  }

  /** Whether the repository has a blob. */
  async hasBlob(digest: string, signal?: AbortSignal): Promise<boolean> {
    return (await this.#headOfBlob(digest, signal)) !== null;
  }

  /** The size of a blob according to the registry. Null: the repository does not have it. */
  async blobSize(digest: string, signal?: AbortSignal): Promise<number | null> {
    const headers = await this.#headOfBlob(digest, signal);
    if (headers === null) return null;
    const size = Number(headers['content-length'] ?? Number.NaN);
    if (Number.isSafeInteger(size)) return size;
    throw new RegistryError('The registry does not say how large a blob is', 0);
  }

  async #headOfBlob(digest: string, signal: AbortSignal | undefined): Promise<HttpReply['headers'] | null> {
    const reply = await this.send({ method: 'HEAD', path: `blobs/${digest}`, signal });
    if (reply.status !== 404) await requireStatus(reply, [200]);
    return drained(reply, reply.status === 200 ? reply.headers : null);
  }

  /**
   * Mounts a blob of another repository of the same registry, without copying it.
   * @returns false when the registry cannot mount blobs
   */
  async mountBlob(digest: string, from: string): Promise<boolean> {
    const query = new URLSearchParams({ mount: digest, from });
    const reply = await this.send({
      method: 'POST',
      path: `blobs/uploads/?${query}`,
      headers: { 'content-length': '0' },
    });
    await requireStatus(reply, [201, 202]);
    return drained(reply, reply.status === 201);
  }

  /** Sends a request below `/v2/<repository>/` with authorization, and follows redirects. The caller reads the body. */
  async send(asked: Asked): Promise<HttpReply> {
    const url = new URL(`/v2/${this.#repository === null ? '' : `${this.#repository}/`}${asked.path}`, this.#origin);
    const first = await this.#ask(url, asked);
    if (first.status !== 401) return this.#follow(url, first, asked);
    const challenge = String(first.headers['www-authenticate'] ?? '');
    drained(first, null);
    this.#authorization = await this.#authorize(challenge, asked.signal);
    if (this.#authorization === null) throw new RegistryError('The registry refuses access', 401);
    return this.#follow(url, await this.#ask(url, asked), asked);
  }

  #ask(url: URL, { method, headers, body, signal }: Asked): Promise<HttpReply> {
    const authorized = this.#authorization ? { ...headers, authorization: this.#authorization } : { ...headers };
    return this.#reach(url, { method, headers: authorized, body, signal });
  }

  /** Credentials are not sent to another host. */
  async #follow(from: URL, reply: HttpReply, asked: Asked): Promise<HttpReply> {
    let [url, last] = [from, reply];
    for (let count = 0; [301, 302, 303, 307, 308].includes(last.status); count++) {
      const { location } = last.headers;
      drained(last, null);
      if (
        !['GET', 'HEAD'].includes(asked.method) ||
        !location ||
        !URL.canParse(location, url.href) ||
        count === maxRedirects
      ) {
        throw new RegistryError('The registry redirects to where it cannot be followed', last.status);
      }
      url = new URL(location, url);
      const { authorization: _own, ...headers } = asked.headers ?? {};
      const isSame = url.origin === this.#origin && this.#authorization;
      last = await this.#reach(url, {
        method: asked.method,
        headers: isSame ? { ...headers, authorization: this.#authorization! } : headers,
        signal: asked.signal,
      });
    }
    return last;
  }

  async #reach(url: URL, request: Parameters<RegistryHttp['send']>[1]): Promise<HttpReply> {
    try {
      return await this.#http.send(url, request);
    } catch (error) {
      request.signal?.throwIfAborted();
      if (error instanceof ForbiddenAddressError) throw error;
      throw new RegistryError(`${url.host} cannot be reached`, 0, error);
    }
  }

  /** The header that answers a challenge. Null: it requires credentials, and there are none or they were refused. */
  async #authorize(challenge: string, signal: AbortSignal | undefined): Promise<string | null> {
    const basic =
      this.#credentials &&
      `Basic ${Buffer.from(`${this.#credentials.username}:${this.#credentials.password}`).toString('base64')}`;
    if (/^basic\b/i.test(challenge)) return basic === this.#authorization ? null : basic;
    if (!/^bearer\b/i.test(challenge)) return null;
    const parameters = new Map(
      // The look-behind keeps the time linear in a long word.
      [...challenge.matchAll(/(?<![a-z])([a-z]+)="([^"]*)"/gi)].map(([, name, value]) => [name!.toLowerCase(), value!]),
    );
    const realm = parameters.get('realm');
    if (!realm || !URL.canParse(realm)) throw new RegistryError('The registry names no token server', 401);
    const url = new URL(realm);
    if (basic && url.protocol === 'http:' && this.#origin.startsWith('https:')) {
      throw new RegistryError('The registry has a token server without TLS', 401);
    }
    const service = parameters.get('service');
    if (service) url.searchParams.set('service', service);
    for (const scope of this.#scopes) url.searchParams.append('scope', scope);
    const reply = await this.#reach(url, { method: 'GET', headers: basic ? { authorization: basic } : {}, signal });
    if ([401, 403].includes(reply.status)) return drained(reply, null);
    await requireStatus(reply, [200]);
    const token = readToken(await readAll(reply.body, maxTokenBytes));
    if (!token) throw new RegistryError('The token server gives no token', 401);
    return `Bearer ${token}`;
  }
}

function textsIn(bytes: Buffer, field: string): string[] {
  const items = (JSON.parse(bytes.toString('utf8')) as Record<string, unknown>)[field];
  return Array.isArray(items) ? items.filter((item): item is string => typeof item === 'string') : [];
}

function readToken(bytes: Buffer): string | null {
  try {
    const { token, access_token: accessToken } = JSON.parse(bytes.toString('utf8')) as Record<string, unknown>;
    const found = token ?? accessToken;
    return typeof found === 'string' && /^[\x21-\x7e]+$/.test(found) ? found : null;
  } catch {
    return null;
  }
}

function drained<Value>(reply: HttpReply, value: Value): Value {
  discard(reply.body);
  return value;
}

async function requireStatus(reply: HttpReply, wanted: readonly number[]): Promise<void> {
  if (wanted.includes(reply.status)) return;
  drained(reply, null);
  const what =
    { 401: 'refuses access', 403: 'refuses access', 404: 'does not have it', 429: 'asks to wait' }[reply.status] ??
    `answers ${reply.status}`;
  throw new RegistryError(`The registry ${what}`, reply.status);
}
