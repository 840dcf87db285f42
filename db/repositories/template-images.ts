import type { EntityManager } from '@mikro-orm/postgresql';
import { readRegistryImage } from '../../domain/template-image.ts';
import { query } from '../query.ts';

/**
 * Whether a template, a sandbox with a disk, or an import that is under way refers to an image of the platform's registry.
 * An import may be about to write this very manifest.
 */
export async function isImageInUse(em: EntityManager, image: string): Promise<boolean> {
  const path = readRegistryImage(image)?.path ?? '';
  const [row] = await query<{ used: boolean }>(
    em.fork(),
    `select exists (select 1 from templates where image = ?)
         or exists (select 1 from sandboxes where image = ? and holds_disk)
         or exists (select 1 from import_jobs where registry_path = ? and status in ('pending', 'running')) as used`,
    [image, image, path],
  );
  return row!.used;
}
