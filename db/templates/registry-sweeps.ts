import type { EntityManager } from '@mikro-orm/postgresql';
import { query } from '../core/query.ts';
import { forgetLeftovers } from './template-storage.ts';

/** Longer than a sweep may take. If a worker dies during a sweep, the registry stays closed for this long. */
const closedMinutes = 15;
/** How long a sweep waits for a time without imports. After that, new attempts wait for the sweep. */
const maxWait = "interval '1 day'";

/** `closing`: the sweep waits for the current writers, and no new writer may begin. */
export type SweepStart = 'begun' | 'nothing_to_sweep' | 'busy' | 'closing';

/** Whether a sweep would free space, or there was none for a week. */
const isWorthwhile = "removed_since > 0 or last_swept_at < now() - interval '7 days'";

/**
 * Begins a sweep of the registry if no import and no build is in progress, because a sweep removes blobs that do not
 * belong to a manifest yet. End it with `endSweep`.
 */
export async function beginSweep(em: EntityManager): Promise<SweepStart> {
  return em.fork().transactional(async (tx) => {
    const [sweeps] = await query<{ worthwhile: boolean; urgent: boolean }>(
      tx,
      `select ${isWorthwhile} as worthwhile, coalesce(wanted_since < now() - ${maxWait}, false) as urgent
         from registry_sweeps for update`,
    );
    if (!sweeps!.worthwhile) return 'nothing_to_sweep';
    const [busy] = await query<{ now: boolean; any: boolean }>(
      tx,
      `select exists (select 1 from import_jobs where status = 'running' and updated_at > now() - interval '1 minute') as now,
              exists (select 1 from import_jobs where status = 'running')
           or exists (select 1 from templates t where t.status in ('building', 'pushing')
                         and t.updated_at > now() - interval '1 hour' and not exists
                         (select 1 from import_jobs j where j.template_id = t.template_id and j.status = 'pending')) as any`,
    );
    if (busy!.now || (busy!.any && !sweeps!.urgent)) {
      const closed = sweeps!.urgent ? ", closed_until = now() + interval '2 minutes'" : '';
      await query(tx, `update registry_sweeps set wanted_since = coalesce(wanted_since, now())${closed}`);
      return sweeps!.urgent ? 'closing' : 'busy';
    }
    await query(tx, `update registry_sweeps set closed_until = now() + interval '${closedMinutes} minutes'`);
    return 'begun';
  });
}

/** Requests a sweep after blobs without an image were left in the registry. */
export async function requestSweep(em: EntityManager): Promise<void> {
  await query(em.fork(), 'update registry_sweeps set removed_since = removed_since + 1');
}

/** Opens the registry again. @param isSwept false: the sweep has failed and is still needed */
export async function endSweep(em: EntityManager, isSwept: boolean): Promise<void> {
  const swept = isSwept ? ', wanted_since = null, last_swept_at = now(), removed_since = 0' : '';
  await query(em.fork(), `update registry_sweeps set closed_until = null${swept}`);
  if (isSwept) await forgetLeftovers(em.fork(), true);
}
