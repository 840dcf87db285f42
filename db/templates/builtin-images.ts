import type { EntityManager } from '@mikro-orm/postgresql';
import { query } from '../core/query.ts';

/** The state of an image that a host makes itself. `missing`: the host has not begun. */
export interface ImageOfHost {
  hostId: string;
  image: string;
  status: 'missing' | 'building' | 'available' | 'failed';
  /** With `failed`: the public reason. */
  message: string | null;
}

/**
 * Records the state of an image on a host, and sets the status of the image's built-in template from all hosts that are
 * not lost: `available` when one has the image, else `building` when one makes it, else `failed` when one failed, else
 * `pending`.
 */
export async function recordImageOfHost(
  em: EntityManager,
  { hostId, image, status, message }: ImageOfHost,
): Promise<void> {
  await em.fork().transactional(async (tx) => {
    // Concurrent reports of two hosts run one after the other. Creates do not wait for this lock.
    await query(
      tx,
      'select 1 from templates where image = ? and account_id is null order by template_id for no key update',
      [image],
    );
    if (status === 'missing') {
      await query(tx, 'delete from builtin_images where image = ? and host_id = ?', [image, hostId]);
    } else {
      await query(
        tx,
        `insert into builtin_images (image, host_id, status, message) values (?, ?, ?, ?)
         on conflict (image, host_id) do update
            set status = excluded.status, message = excluded.message, changed_at = now()`,
        [image, hostId, status, message],
      );
    }
    await query(
      tx,
      `with hosts_now as (
         select b.* from builtin_images b join hosts h on h.host_id = b.host_id and h.lost_at is null where b.image = ?
       ), derived as (
         select case when exists (select from hosts_now where status = 'available') then 'available'
                     when exists (select from hosts_now where status = 'building') then 'building'
                     when exists (select from hosts_now) then 'failed'
                     else 'pending' end as status,
                (select message from hosts_now where status = 'failed' order by changed_at desc limit 1) as message
       )
       update templates t
          set status = d.status, build_error_message = case when d.status = 'failed' then d.message end,
              build_started_at = case when d.status = 'building' and t.status <> 'building' then now() else t.build_started_at end,
              updated_at = now()
         from derived d where t.image = ? and t.account_id is null
          and (t.status <> d.status or (d.status = 'failed' and t.build_error_message is distinct from d.message))`,
      [image, image],
    );
  });
}
