import { Context } from '@temporalio/activity';
import pLimit from 'p-limit';
import type { Orm } from '../../db/orm.ts';
import {
  beginRemoval,
  endRemoval,
  findOwnProjects,
  findUnusedImages,
  knownRepositories,
  rememberImages,
} from '../../db/templates/registry-images.ts';
import { beginSweep, endSweep, type SweepStart } from '../../db/templates/registry-sweeps.ts';
import { forgetLeftovers } from '../../db/templates/template-storage.ts';
import { readRegistryImage } from '../../domain/templates/image.ts';
import type { PlatformRegistry } from '../../integrations/registry/platform-registry.ts';
import { RegistryError } from '../../integrations/registry/registry-client.ts';
import { sweepEmbeddedRegistry } from '../../integrations/registry/sweep.ts';
import type { Settings } from '../../platform/config/settings.ts';

/** The number of repositories that are read concurrently. */
const maxConcurrentReads = 4;
/** The number of images that one round removes. */
const maxRemovals = 1000;

interface RegistryImageDeps {
  orm: Orm;
  settings: Settings;
  registry: PlatformRegistry | null;
}

/** `not_ours`: the registry is not the embedded one, so its blobs are not the platform's to sweep. */
export type SweepResult = 'swept' | 'not_ours' | Exclude<SweepStart, 'begun'>;

/** Upkeep of the images in the platform's registry. */
export function createRegistryImageActivities({ orm, settings, registry }: RegistryImageDeps) {
  async function readRepository(path: string): Promise<void> {
    await rememberImages(orm.em, path, await registry!.taggedDigests(path));
  }

  return {
    /**
     * Removes the manifest of an image that no template, sandbox or import refers to. @returns whether it was removed
     */
    async removeUnusedImage(image: string): Promise<boolean> {
      return registry !== null && removeIfUnused({ orm, registry }, image);
    },
    /**
     * Reads the registry. @returns images that have been unreferenced for the whole time that unused images are kept
     */
    async findUnusedImages(): Promise<string[]> {
      if (!registry) return [];
      const listed = (await registry.repositories()) ?? [];
      const own = await findOwnProjects(orm.em, [...new Set(listed.map((path) => registry.parseProject(path)))]);
      const ours = listed.filter((path) => own.has(registry.parseProject(path)));
      const paths = [...new Set([...ours, ...(await knownRepositories(orm.em))])];
      const turns = pLimit(maxConcurrentReads);
      await Promise.all(paths.map((path) => turns(() => readRepository(path))));
      await forgetLeftovers(orm.em.fork(), false);
      return findUnusedImages(orm.em, settings.PLATFORM_UNUSED_IMAGES_KEPT_HOURS, maxRemovals);
    },
    /** @returns the number of removed images; the others are in use again */
    async removeUnusedImages(images: string[]): Promise<number> {
      let removed = 0;
      for (const image of images) {
        if (registry && (await removeIfUnused({ orm, registry }, image))) removed += 1;
      }
      return removed;
    },
    /** Frees the space of blobs that belong to no image. Only the embedded registry can be swept from here. */
    async sweepRegistry(): Promise<SweepResult> {
      const { PLATFORM_REGISTRY_SWEEP_SOCKET: socket } = settings;
      if (!socket) return 'not_ours';
      const start = await beginSweep(orm.em);
      if (start !== 'begun') return start;
      let isSwept = false;
      try {
        await sweepEmbeddedRegistry(socket, Context.current().cancellationSignal);
        isSwept = true;
      } finally {
        await endSweep(orm.em, isSwept);
      }
      return 'swept';
    },
  };
}

/** Removes an image's manifest, unless something refers to it or is about to. @returns whether it was removed */
export async function removeIfUnused(
  { orm, registry }: { orm: Orm; registry: PlatformRegistry },
  image: string,
): Promise<boolean> {
  if (!(await beginRemoval(orm.em, image))) return false;
  let isRemoved = false;
  try {
    const { path, digest } = readRegistryImage(image)!;
    await registry.remove(path, digest);
    isRemoved = true;
  } catch (error) {
    // The registry is being swept, or does not support deletes.
    if (!(error instanceof RegistryError && error.status === 405)) throw error;
  } finally {
    await endRemoval(orm.em, image, isRemoved);
  }
  return isRemoved;
}

export type RegistryImageActivities = ReturnType<typeof createRegistryImageActivities>;
