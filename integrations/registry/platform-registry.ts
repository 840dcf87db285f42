import { readFileSync } from 'node:fs';
import pLimit from 'p-limit';
import { placeIn, type RegistryPlace } from '../../domain/templates/image.ts';
import { type ImageBlob, type ImageManifest, listBlobs, sumSizes } from '../../domain/templates/image-manifest.ts';
import type { ImageReference } from '../../domain/templates/image-reference.ts';
import type { Settings } from '../../platform/config/settings.ts';
import { ImageUpload } from './image-upload.ts';
import { RegistryClient, type RegistryCredentials, RegistryError } from './registry-client.ts';
import { discard, RegistryHttp } from './registry-http.ts';

/** An image of the platform's registry. Its sizes are those of the stored blobs, not those of the manifest. */
export interface StoredImage {
  digest: string;
  blobs: ImageBlob[];
  sizeBytes: number;
  /** Why the manifest is wrong. Null: its sizes are those of the registry. */
  wrongSize: string | null;
}

/** The number of blobs of one image whose sizes are asked for concurrently. */
const maxConcurrentSizes = 8;

type RegistrySettings = Pick<
  Settings,
  | 'PLATFORM_REGISTRY'
  | 'PLATFORM_REGISTRY_INSECURE_HTTP'
  | 'PLATFORM_REGISTRY_USERNAME'
  | 'PLATFORM_REGISTRY_PASSWORD_FILE'
  | 'PLATFORM_REGISTRY_CA_FILE'
>;

/** The registry of the templates' images. Its repositories are `<prefix><project>/<repository>`. */
export class PlatformRegistry {
  /** Host and port. */
  readonly address: string;
  /** Ends with a slash unless it is empty. */
  readonly prefix: string;
  readonly origin: string;
  readonly credentials: RegistryCredentials | null;
  /** PEM of the registry's own certificate authority. */
  readonly ca: string | null;
  readonly #http: RegistryHttp;

  private constructor(settings: RegistrySettings & { PLATFORM_REGISTRY: string }) {
    const [address, ...path] = settings.PLATFORM_REGISTRY.replace(/\/+$/, '').split('/');
    this.address = address!;
    this.prefix = path.length > 0 ? `${path.join('/')}/` : '';
    this.origin = `${settings.PLATFORM_REGISTRY_INSECURE_HTTP ? 'http' : 'https'}://${address}`;
    this.credentials = readCredentials(settings);
    const { PLATFORM_REGISTRY_CA_FILE: caFile } = settings;
    this.ca = caFile ? readFileSync(caFile, 'utf8') : null;
    this.#http = new RegistryHttp(this.ca ? { ca: this.ca } : {});
  }

  /** Null: the settings have no registry. */
  static of(settings: RegistrySettings): PlatformRegistry | null {
    const { PLATFORM_REGISTRY: address } = settings;
    return address ? new PlatformRegistry({ ...settings, PLATFORM_REGISTRY: address }) : null;
  }

  /** The repository below `/v2/`. */
  formatPath({ project, repository }: Pick<RegistryPlace, 'project' | 'repository'>): string {
    return `${this.prefix}${project}/${repository}`;
  }

  formatUrl(place: RegistryPlace): string {
    return `${this.address}/${this.formatPath(place)}:${place.tag}`;
  }

  /** Null: the reference has another registry. */
  parsePlace(reference: ImageReference): (RegistryPlace & { digest: string | null }) | null {
    return placeIn(this, reference);
  }

  /** The project of a repository. Empty: the repository is outside the prefix. */
  parseProject(path: string): string {
    return path.startsWith(this.prefix) ? path.slice(this.prefix.length).split('/', 1)[0]! : '';
  }

  /** Every repository that the registry lists. Null: it lists none, because some registries have no such list. */
  async repositories(): Promise<string[] | null> {
    return this.#client(null, 'pull').list('_catalog', 'repositories');
  }

  /** Digests of the manifests that have tags in a repository, and of the images in those that are lists. */
  async taggedDigests(path: string): Promise<string[]> {
    const client = this.#client(path, 'pull');
    const digests = new Set<string>();
    for (const tag of (await client.list('tags/list', 'tags')) ?? []) {
      const found = await client.manifest(tag).catch((error) => {
        // No template can refer to such a manifest, so it is not ours.
        if (error instanceof RegistryError && error.status === 200) return null;
        throw error;
      });
      if (found) digests.add(found.digest);
      if (found?.manifest.kind === 'index') for (const { digest } of found.manifest.manifests) digests.add(digest);
    }
    return [...digests].filter((digest) => digest.startsWith('sha256:'));
  }

  /** @throws {RegistryError} when the registry is unreachable */
  async requireUp(): Promise<void> {
    const signal = AbortSignal.timeout(5000);
    const reply = await this.#http
      .send(new URL('/v2/', this.origin), { method: 'GET', headers: {}, signal })
      .catch((error) => {
        throw new RegistryError('The registry cannot be reached', 0, error);
      });
    discard(reply.body);
    if (reply.status !== 200 && reply.status !== 401) {
      throw new RegistryError(`The registry answers ${reply.status}`, reply.status);
    }
  }

  /**
   * Finds an image.
   * @param reference a tag or a digest
   * @returns null when there is none, or it is a list for several platforms
   */
  async find(path: string, reference: string): Promise<{ digest: string } | null> {
    const found = await this.#client(path, 'pull').manifest(reference);
    return found?.manifest.kind === 'image' ? { digest: found.digest } : null;
  }

  /** Asks the registry for the size of each blob of an image. Null: there is no such image, or it lacks a blob. */
  async measure(path: string, digest: string, signal?: AbortSignal): Promise<StoredImage | null> {
    const client = this.#client(path, 'pull');
    const found = await client.manifest(digest, signal);
    if (found?.manifest.kind !== 'image') return null;
    const claimed = listBlobs(found.manifest);
    const turns = pLimit(maxConcurrentSizes);
    const sizes = await Promise.all(claimed.map((blob) => turns(() => client.blobSize(blob.digest, signal))));
    const blobs = claimed.flatMap((blob, at) => (sizes[at] == null ? [] : [{ digest: blob.digest, size: sizes[at] }]));
    if (blobs.length < claimed.length) return null;
    const wrong = claimed.findIndex(({ size }, at) => size !== sizes[at]);
    const wrongSize =
      wrong === -1
        ? null
        : `The manifest of the image says that ${claimed[wrong]!.digest} has ${claimed[wrong]!.size} bytes, but it has ${sizes[wrong]}`;
    return { digest: found.digest, blobs, sizeBytes: sumSizes(blobs), wrongSize };
  }

  /**
   * Reads an image with its configuration.
   * @throws {RegistryError} when it was removed
   */
  async read(
    path: string,
    digest: string,
    signal: AbortSignal,
  ): Promise<{ layers: ImageManifest['layers']; config: Record<string, unknown> }> {
    const client = this.#client(path, 'pull');
    const found = await client.manifest(digest, signal);
    if (found?.manifest.kind !== 'image') throw new RegistryError('The image is gone', 404);
    const { layers, config } = found.manifest;
    const bytes = await client.smallBlob(config.digest, signal);
    return { layers, config: JSON.parse(bytes.toString('utf8')) };
  }

  /** @param alsoPulls the repositories that blobs are taken from */
  uploadTo(path: string, alsoPulls: string[]): ImageUpload {
    return new ImageUpload(this.#client(path, 'pull,push', alsoPulls), path);
  }

  /** The subset of the blobs that a repository has. */
  async blobsThere(path: string, blobs: readonly ImageBlob[], signal?: AbortSignal): Promise<Set<string>> {
    const client = this.#client(path, 'pull');
    const there = new Set<string>();
    for (const { digest } of blobs) if (await client.hasBlob(digest, signal)) there.add(digest);
    return there;
  }

  /** Removes a manifest with all of its tags. Its blobs stay until the registry collects them. */
  async remove(path: string, digest: string): Promise<void> {
    await this.#client(path, 'pull,push,delete').deleteManifest(digest);
  }

  /**
   * Makes an image of one repository available in another, without copying its blobs.
   * @throws {RegistryError} when there is no such image, or the registry cannot mount blobs
   */
  async copy(from: { path: string; digest: string }, to: { path: string; tag: string }): Promise<void> {
    const found = await this.#client(from.path, 'pull').manifest(from.digest);
    if (found?.manifest.kind !== 'image') throw new RegistryError('The image is gone', 404);
    const target = this.#client(to.path, 'pull,push', [from.path]);
    for (const { digest } of listBlobs(found.manifest)) {
      if (await target.hasBlob(digest)) continue;
      if (!(await target.mountBlob(digest, from.path))) throw new RegistryError('The registry mounts no blobs', 202);
    }
    await target.putManifest(to.tag, found);
  }

  close(): void {
    this.#http.close();
  }

  #client(
    path: string | null,
    actions: 'pull' | 'pull,push' | 'pull,push,delete',
    alsoPulls: string[] = [],
  ): RegistryClient {
    return new RegistryClient(this.#http, { origin: this.origin, path, actions }, this.credentials, alsoPulls);
  }
}

function readCredentials(settings: RegistrySettings): RegistryCredentials | null {
  const { PLATFORM_REGISTRY_USERNAME: username, PLATFORM_REGISTRY_PASSWORD_FILE: file } = settings;
  return username && file ? { username, password: readFileSync(file, 'utf8').trim() } : null;
}
