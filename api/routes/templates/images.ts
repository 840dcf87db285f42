import net from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import type { EntityManager } from '@mikro-orm/postgresql';
import type { Identity } from '../../../db/accounts/identities.ts';
import { sandboxNetworks } from '../../../db/hosts/hosts.ts';
import { holdImage } from '../../../db/templates/registry-images.ts';
import type { Template } from '../../../db/templates/template.entity.ts';
import type { TemplateImage } from '../../../db/templates/template-changes.ts';
import { describeExcess, storageExcess } from '../../../db/templates/template-storage.ts';
import { AppError } from '../../../domain/errors.ts';
import type { TemplateId } from '../../../domain/ids.ts';
import { isOutboundAddressAllowed } from '../../../domain/outbound-addresses.ts';
import { mayReadProject, registryImage } from '../../../domain/templates/image.ts';
import type { ImageBlob } from '../../../domain/templates/image-manifest.ts';
import { parseImageReference, registryAddress } from '../../../domain/templates/image-reference.ts';
import {
  findExternalImage,
  NoSuchImageError,
  UnusableImageError,
} from '../../../integrations/registry/external-image.ts';
import { ExternalRegistries } from '../../../integrations/registry/external-registries.ts';
import { ForbiddenAddressError } from '../../../integrations/registry/outbound-guard.ts';
import type { PlatformRegistry, StoredImage } from '../../../integrations/registry/platform-registry.ts';
import { type RegistryCredentials, RegistryError } from '../../../integrations/registry/registry-client.ts';
import type { Settings } from '../../../platform/config/settings.ts';
import type { ApiDependencies } from '../../dependencies.ts';

/** A removal is one small request to the registry, so it ends within a few tries. */
const holdTries = 20;
const holdPauseMs = 250;

const unavailable = (cause?: unknown) =>
  new AppError('registry_unavailable', 'The registry of the platform is not available now; try again later', { cause });

/** @throws {AppError} `registry_unavailable` when the settings have no registry */
export function requireRegistry(registry: PlatformRegistry | null): PlatformRegistry {
  if (!registry) throw unavailable();
  return registry;
}

/** @throws {AppError} `registry_unavailable` */
export async function requireRegistryUp(registry: PlatformRegistry | null): Promise<PlatformRegistry> {
  const there = requireRegistry(registry);
  await reachRegistry(() => there.requireUp());
  return there;
}

/**
 * @param blobs of the template's new image; without it, the existing images are checked
 * @throws {AppError} `template_storage_limit_reached` when the images of the account use more than the limit
 */
export async function requireStorage(
  em: EntityManager,
  { plans }: Pick<ApiDependencies, 'plans'>,
  template: Pick<Template, 'accountId' | 'ownerUserId' | 'visibility'> & { templateId?: TemplateId },
  blobs: readonly ImageBlob[] = [],
): Promise<void> {
  const excess = await storageExcess(em, plans, template, blobs);
  if (excess) throw new AppError('template_storage_limit_reached', describeExcess(excess));
}

/**
 * The image of a request in the platform's registry, read from the registry.
 * @throws {AppError} `image_not_found` when it does not exist or the caller may not read it; `image_unusable` when its
 * manifest is wrong; `registry_unavailable`
 */
export async function readNamedImage(
  deps: Pick<ApiDependencies, 'orm' | 'registry'>,
  caller: Pick<Identity, 'accountId' | 'userId' | 'role'>,
  url: string,
): Promise<TemplateImage> {
  const registry = requireRegistry(deps.registry);
  const reference = parseImageReference(url);
  const place = reference && registry.parsePlace(reference);
  if (!place || !mayReadProject(caller, place.project)) throw imageNotFound();
  const path = registry.formatPath(place);
  const named = await reachRegistry(() => registry.find(path, place.digest ?? place.tag));
  if (!named) throw imageNotFound();
  await keepImage(deps, { path, digest: named.digest });
  // The image may have been removed before it was protected from removal.
  const found = await reachRegistry(() => registry.measure(path, named.digest));
  if (!found) throw imageNotFound();
  if (found.wrongSize) throw new AppError('image_unusable', found.wrongSize);
  return imageFields(registry, place, found);
}

/**
 * Protects an image from removal until the request has written the row that refers to it.
 * @throws {AppError} `registry_unavailable` when the image is being removed, and that takes long
 */
export async function keepImage(
  { orm }: Pick<ApiDependencies, 'orm'>,
  image: { path: string; digest: string },
): Promise<void> {
  for (let tries = 0; !(await holdImage(orm.em, image)); tries++) {
    if (tries === holdTries) throw unavailable();
    await delay(holdPauseMs);
  }
}

/** The columns of a template that describe an image of the platform's registry. */
function imageFields(
  registry: PlatformRegistry,
  place: { project: string; repository: string; tag: string },
  { digest, sizeBytes, blobs }: StoredImage,
): TemplateImage {
  return {
    image: registryImage(registry.formatPath(place), digest),
    registryImageUrl: registry.formatUrl(place),
    registryProject: place.project,
    registryRepository: place.repository,
    registryTag: place.tag,
    imageSizeBytes: sizeBytes,
    imageBlobs: blobs,
  };
}

/**
 * Refuses a registry with a literal forbidden address, and the platform's own registry, whose name users know. Names are
 * resolved at the time of a connection.
 * @throws {AppError} `validation_failed`
 */
export function requireOutboundImage(url: string, settings: Settings): void {
  const reference = parseImageReference(url);
  const { host } = registryAddress(reference?.registry ?? '');
  if (reference?.registry === settings.PLATFORM_REGISTRY) {
    throw urlRefused("is in the platform's own registry; use registry_image_url");
  }
  if (net.isIP(host) === 0 || isOutboundAddressAllowed(host, settings.PLATFORM_OUTBOUND_RANGES)) return;
  throw addressNotAllowed();
}

const addressNotAllowed = () => urlRefused('is at an address that is not allowed');

function urlRefused(reason: string): AppError {
  return new AppError('validation_failed', `external_image_url ${reason}`, {
    details: [{ path: 'external_image_url', reason }],
  });
}

/** The check of an external image may not delay a request further. */
const externalCheckMs = 5000;

/**
 * Checks that an external image is there. A registry that cannot be reached now is left to the import.
 * @throws {AppError} `image_not_found` when its registry does not have it or refuses access; `image_unusable` when the
 * platform cannot run it; `validation_failed` when its address is not allowed
 */
export async function requireExternalImage(
  { orm, settings }: Pick<ApiDependencies, 'orm' | 'settings'>,
  url: string,
  credentials: RegistryCredentials | null,
): Promise<void> {
  const reference = parseImageReference(url)!;
  const registries = new ExternalRegistries(settings, () => sandboxNetworks(orm.em));
  const signal = AbortSignal.timeout(externalCheckMs);
  try {
    await findExternalImage(await registries.createClient(reference, credentials, signal), reference, signal);
  } catch (error) {
    if (error instanceof ForbiddenAddressError) throw addressNotAllowed();
    if (
      error instanceof NoSuchImageError ||
      (error instanceof RegistryError && [401, 403, 404].includes(error.status))
    ) {
      const reason = 'is not an image that its registry shows to this user';
      throw new AppError('image_not_found', 'The external registry has no such image, or it refuses access', {
        details: [{ path: 'external_image_url', reason }],
      });
    }
    if (error instanceof UnusableImageError) throw new AppError('image_unusable', error.message);
    if (!(error instanceof RegistryError) && !signal.aborted) throw error;
  } finally {
    registries.close();
  }
}

/** @throws {AppError} `registry_unavailable`, `image_unusable` when `work` fails because of the registry or a manifest in it */
export async function reachRegistry<Value>(work: () => Promise<Value>): Promise<Value> {
  try {
    return await work();
  } catch (error) {
    // The registry has a manifest that is invalid.
    if (error instanceof RegistryError && error.status === 200) throw new AppError('image_unusable', error.message);
    if (error instanceof RegistryError) throw unavailable(error);
    throw error;
  }
}

function imageNotFound(): AppError {
  return new AppError('image_not_found', 'The registry has no such image, or you may not read it', {
    details: [{ path: 'registry_image_url', reason: 'is not an image that you may read' }],
  });
}
