import type { EntityManager } from '@mikro-orm/postgresql';
import { ownerOfProject, readRegistryImage, registryImage } from '../../domain/templates/image.ts';
import { query } from '../core/query.ts';
import { isImageInUse } from './template-images.ts';

/** Longer than the time from a request's read of an image to its row that refers to the image. */
const holdSeconds = 120;
/** Longer than a removal waits for the registry. */
const removalSeconds = 120;

/**
 * Keeps an image in the registry until a request has written its reference to it. Call this before the image is read or
 * written.
 * @returns false when the image is just being removed
 */
export async function holdImage(em: EntityManager, image: { path: string; digest: string }): Promise<boolean> {
  const rows = await query(
    em.fork(),
    `insert into registry_images as i (path, digest, held_until) values (?, ?, now() + interval '${holdSeconds} seconds')
     on conflict (path, digest) do update set held_until = excluded.held_until, unused_since = null
      where i.removing_until is null or i.removing_until < now() returning 1`,
    [image.path, image.digest],
  );
  return rows.length > 0;
}

/**
 * Begins the removal of an unreferenced image. End it with `endRemoval`.
 * @returns false when something refers to it or is about to, or it is already being removed
 */
export async function beginRemoval(em: EntityManager, image: string): Promise<boolean> {
  const stored = readRegistryImage(image);
  if (!stored) return false;
  const { path, digest } = stored;
  const on = em.fork();
  // Committed separately, so that an import that begins now finds the row and waits for it.
  await query(on, 'insert into registry_images (path, digest) values (?, ?) on conflict do nothing', [path, digest]);
  return on.transactional(async (tx) => {
    const [row] = await query<{ busy: boolean }>(
      tx,
      `select coalesce(held_until > now() or removing_until > now(), false) as busy
         from registry_images where path = ? and digest = ? for update`,
      [path, digest],
    );
    if (!row || row.busy || (await isImageInUse(tx, image))) return false;
    await query(
      tx,
      `update registry_images set removing_until = now() + interval '${removalSeconds} seconds'
        where path = ? and digest = ?`,
      [path, digest],
    );
    return true;
  });
}

/** @param isRemoved false: the registry has failed, and another attempt may begin at once */
export async function endRemoval(em: EntityManager, image: string, isRemoved: boolean): Promise<void> {
  const { path, digest } = readRegistryImage(image)!;
  await em.fork().transactional(async (tx) => {
    if (isRemoved) {
      await query(tx, 'delete from registry_images where path = ? and digest = ?', [path, digest]);
      await query(tx, 'update registry_sweeps set removed_since = removed_since + 1');
      return;
    }
    await query(tx, 'update registry_images set removing_until = null where path = ? and digest = ?', [path, digest]);
  });
}

/** The known repositories that the platform has written to. */
export async function knownRepositories(em: EntityManager): Promise<string[]> {
  const rows = await query<{ path: string }>(
    em.fork(),
    'select path from registry_images union select registry_path from import_jobs',
  );
  return rows.map(({ path }) => path);
}

/**
 * The projects of the list whose user or account belongs to this platform. A registry may also contain images of
 * others.
 */
export async function findOwnProjects(em: EntityManager, projects: readonly string[]): Promise<Set<string>> {
  const owners = JSON.stringify(projects.map(ownerOfProject));
  const rows = await query<{ owner: string | null }>(
    em.fork(),
    `select o as owner from jsonb_array_elements_text(?::jsonb) o
      where exists (select 1 from users where user_id = o) or exists (select 1 from accounts where account_id = o)`,
    [owners],
  );
  const found = new Set(rows.map(({ owner }) => owner));
  return new Set(projects.filter((project) => found.has(ownerOfProject(project))));
}

/** Adds images that were found in the registry. */
export async function rememberImages(em: EntityManager, path: string, digests: readonly string[]): Promise<void> {
  await query(
    em.fork(),
    'insert into registry_images (path, digest) select ?, d from jsonb_array_elements_text(?::jsonb) d on conflict do nothing',
    [path, JSON.stringify(digests)],
  );
}

/**
 * Records since when an image has been unreferenced, and finds images that have been unreferenced for long.
 * @returns at most `limit` images
 */
export async function findUnusedImages(em: EntityManager, keptHours: number, limit: number): Promise<string[]> {
  const on = em.fork();
  const image = "'registry:' || i.path || '@' || i.digest";
  await query(
    on,
    `
    update registry_images i set unused_since = case when used.is_used then null else now() end
      from (select i.path, i.digest,
              exists (select 1 from templates t where t.image = ${image})
              or exists (select 1 from sandboxes s where s.image = ${image} and s.holds_disk)
              or exists (select 1 from import_jobs j where j.registry_path = i.path and j.status in ('pending', 'running'))
              as is_used from registry_images i) used
     where used.path = i.path and used.digest = i.digest and used.is_used = (i.unused_since is not null)`,
  );
  const rows = await query<{ path: string; digest: string }>(
    on,
    `select path, digest from registry_images where unused_since <= now() - make_interval(hours => ?)
      order by unused_since limit ?`,
    [keptHours, limit],
  );
  return rows.map(({ path, digest }) => registryImage(path, digest));
}
