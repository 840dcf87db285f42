import type { EntityManager } from '@mikro-orm/postgresql';
import { readRegistryImage } from '../../domain/templates/image.ts';
import { query } from '../core/query.ts';

/**
 * Whether a template, a sandbox with a disk, or a running import refers to an image of the platform's registry. An
 * import may be about to write this same manifest.
 */
export async function isImageInUse(em: EntityManager, image: string): Promise<boolean> {
  const path = readRegistryImage(image)?.path ?? '';
  const [row] = await query<{ used: boolean }>(
    em,
    `select exists (select 1 from templates where image = ?)
         or exists (select 1 from sandboxes where image = ? and holds_disk)
         or exists (select 1 from import_jobs where registry_path = ? and status in ('pending', 'running'))
         or exists (select 1 from templates where build_sandbox_id is not null and image is null
                      and right(?, length(registry_project || '/' || registry_repository)) = registry_project || '/' || registry_repository) as used`,
    [image, image, path, path],
  );
  return row!.used;
}

/** The images of the list that templates have. */
export async function imagesOfTemplates(em: EntityManager, images: readonly string[]): Promise<Set<string>> {
  const rows = await query<{ image: string }>(
    em.fork(),
    'select distinct image from templates where image in (select jsonb_array_elements_text(?::jsonb))',
    [JSON.stringify(images)],
  );
  return new Set(rows.map(({ image }) => image));
}
