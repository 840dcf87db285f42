import type { Orm } from '../db/orm.ts';
import { isImageInUse } from '../db/repositories/template-images.ts';
import { readRegistryImage } from '../domain/template-image.ts';
import type { PlatformRegistry } from '../registry/platform-registry.ts';

/** Upkeep of the images in the platform's registry. */
export function createTemplateImageActivities({ orm, registry }: { orm: Orm; registry: PlatformRegistry | null }) {
  return {
    /** Removes the manifest of an image that no template, sandbox or import refers to. @returns whether it did */
    async removeUnusedImage(image: string): Promise<boolean> {
      const stored = readRegistryImage(image);
      if (!stored || !registry || (await isImageInUse(orm.em, image))) return false;
      await registry.remove(stored.path, stored.digest);
      return true;
    },
  };
}

export type TemplateImageActivities = ReturnType<typeof createTemplateImageActivities>;
