import type { EntityManager } from '@mikro-orm/postgresql';
import { query } from '../query.ts';

/** Longer than a sweep may take: a worker that dies in one closes the registry for so long. */
const closedMinutes = 15;
/** A sweep waits so long for a time without imports; then new attempts wait for the sweep. */
const patience = "interval '1 day'";

/** `closing`: the sweep waits for the present writers, and no other writer begins. */
export type SweepStart = 'begun' | 'nothing_to_sweep' | 'busy' | 'closing';

/** Whether a sweep would free anything, or was none for a week, which clears what cancelled imports have left. */
const isWorthwhile = "removed_since > 0 or last_swept_at < now() - interval '7 days'";

/**
 * Begins a sweep of the registry where no import and no build is under way: a sweep removes blobs that belong to no
 * manifest yet. End it with `endSweep`.
 */
export async function beginSweep(em: EntityManager): Promise<SweepStart> {
  return em.fork().transactional(async (tx) => {
    const [sweeps] = await query<{ worthwhile: boolean; urgent: boolean }>(
      tx,
      `select ${isWorthwhile} as worthwhile, coalesce(wanted_since < now() - ${patience}, false) as urgent
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

/** Opens the registry again. @param isSwept false: the sweep has failed and is still wanted */
export async function endSweep(em: EntityManager, isSwept: boolean): Promise<void> {
  const swept = isSwept ? ', wanted_since = null, last_swept_at = now(), removed_since = 0' : '';
  await query(em.fork(), `update registry_sweeps set closed_until = null${swept}`);
}
