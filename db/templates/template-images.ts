import type { EntityManager } from '@mikro-orm/postgresql';
import { readRegistryImage } from '../../domain/templates/image.ts';
import type { ImageBlob } from '../../domain/templates/image-manifest.ts';
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

/** Images of the registry whose sizes were taken from a manifest. @returns at most `limit` images */
export async function findUnmeasuredImages(em: EntityManager, limit: number): Promise<string[]> {
  const rows = await query<{ image: string }>(
    em.fork(),
    `select distinct image from templates where not image_is_measured and image like 'registry:%' limit ?`,
    [limit],
  );
  return rows.map(({ image }) => image);
}

/**
 * Gives the templates with an image the sizes that the registry has.
 * @returns the templates with other sizes before
 */
export async function recordMeasuredImage(
  em: EntityManager,
  image: string,
  { blobs, sizeBytes }: { blobs: readonly ImageBlob[]; sizeBytes: number },
): Promise<{ templateId: string; claimedBytes: number }[]> {
  const rows = await query<{ template_id: string; claimed: string }>(
    em.fork(),
    `with before as (
       select template_id, image_size_bytes as claimed from templates where image = ? and not image_is_measured for update
     ), measured as (
       update templates t set image_blobs = ?::jsonb, image_size_bytes = ?, image_is_measured = true, updated_at = now()
         from before b where t.template_id = b.template_id
     )
     select template_id, coalesce(claimed, 0) as claimed from before where claimed is distinct from ?`,
    [image, JSON.stringify(blobs), sizeBytes, sizeBytes],
  );
  return rows.map(({ template_id: templateId, claimed }) => ({ templateId, claimedBytes: Number(claimed) }));
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
