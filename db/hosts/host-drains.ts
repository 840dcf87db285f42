import type { EntityManager } from '@mikro-orm/postgresql';
import type { SandboxId } from '../../domain/ids.ts';
import type { SandboxStatus } from '../../domain/sandboxes/state.ts';
import { recordAudit } from '../accounts/audit-events.ts';
import { lockRow } from '../core/lock-row.ts';
import { requestSignal } from '../core/outbox.ts';
import { query } from '../core/query.ts';

/** A host in the form for operators. */
export interface HostView {
  hostId: string;
  region: string;
  /**
   * `ready`: takes sandboxes. `draining`: an operator drains it. `away`: it does not renew its lease, or is starting.
   * `lost`: its sandboxes were given up.
   */
  state: 'ready' | 'draining' | 'away' | 'lost';
  drainingSince: Date | null;
  leaseExpiresAt: Date;
  /** What may be promised to sandboxes. Null: unlimited. */
  capacity: { cpu: number | null; memoryMb: number | null; diskGb: number | null };
  /** The memory of the machine. Null: the host has not measured itself yet. */
  memoryMbTotal: number | null;
  measuredAt: Date | null;
  /** Measured capacity for more sandboxes. Negative: the host is under pressure. Null: the host has not measured itself yet. */
  free: { cpu: number; memoryMb: number; diskMb: number } | null;
  /** Used-up resources. */
  shortOf: string[];
  /** The nearly full disk: `data` or `cache`. */
  fullDisk: string | null;
  /** The number of its sandboxes by status, without ended ones. */
  sandboxes: Partial<Record<SandboxStatus, number>>;
}

interface HostRow {
  host_id: string;
  region: string;
  state: HostView['state'];
  draining_since: string | null;
  lease_expires_at: string;
  cpu_capacity: number | null;
  memory_mb_capacity: number | null;
  disk_gb_capacity: number | null;
  memory_mb_total: number | null;
  measured_at: string | null;
  cpu_free: number | null;
  memory_mb_free: number | null;
  disk_mb_free: number | null;
  short_of: string[];
  full_disk: string | null;
  sandboxes: HostView['sandboxes'];
}

/** All hosts by id, or one of them. */
export async function readHosts(em: EntityManager, hostId: string | null = null): Promise<HostView[]> {
  const rows = await query<HostRow>(
    em.fork(),
    `select h.host_id, h.region, h.draining_since, h.lease_expires_at, h.cpu_free, h.memory_mb_free, h.disk_mb_free,
            h.short_of, h.full_disk, h.cpu_capacity, h.memory_mb_capacity, h.disk_gb_capacity, h.memory_mb_total, h.measured_at,
            case when h.lost_at is not null then 'lost'
                 when h.lease_expires_at <= now() then 'away'
                 when h.draining_since is not null then 'draining'
                 else 'ready' end as state,
            coalesce((select jsonb_object_agg(status, amount)
                        from (select status, count(*) as amount from sandboxes s
                               where s.host_id = h.host_id and s.status not in ('terminated', 'failed')
                               group by status) as counts), '{}') as sandboxes
       from hosts h where ?::text is null or h.host_id = ? order by h.host_id`,
    [hostId, hostId],
  );
  return rows.map((row) => ({
    hostId: row.host_id,
    region: row.region,
    state: row.state,
    drainingSince: row.draining_since === null ? null : new Date(row.draining_since),
    leaseExpiresAt: new Date(row.lease_expires_at),
    capacity: { cpu: row.cpu_capacity, memoryMb: row.memory_mb_capacity, diskGb: row.disk_gb_capacity },
    memoryMbTotal: row.memory_mb_total,
    measuredAt: row.measured_at === null ? null : new Date(row.measured_at),
    free:
      row.cpu_free === null ? null : { cpu: row.cpu_free, memoryMb: row.memory_mb_free!, diskMb: row.disk_mb_free! },
    shortOf: row.short_of,
    fullDisk: row.full_disk,
    sandboxes: row.sandboxes,
  }));
}

/**
 * Begins or ends the drain of a host. A concurrent create that chose the host has locked the host's row, so it is either
 * admitted before the drain, or sees the drain.
 * @returns false when there is no such host
 */
export function setDraining(em: EntityManager, hostId: string, draining: boolean): Promise<boolean> {
  return em.fork().transactional(async (tx) => {
    if (!(await lockRow(tx, 'hosts', hostId))) return false;
    const [row] = await query<{ was: boolean }>(
      tx,
      'select draining_since is not null as was from hosts where host_id = ?',
      [hostId],
    );
    const since = draining ? 'coalesce(draining_since, now())' : 'null';
    await query(tx, `update hosts set draining_since = ${since} where host_id = ?`, [hostId]);
    const [before, after] = [{ draining: row!.was }, { draining }];
    await recordAudit(tx, { accountId: null, objectId: hostId, before, after });
    return true;
  });
}

/**
 * Asks the workflows of the running sandboxes of a host to pause them.
 * @param asked sandboxes that were already asked and are left out
 * @returns the asked sandboxes
 */
export async function pauseSandboxesOn(
  em: EntityManager,
  hostId: string,
  asked: Iterable<SandboxId> = [],
): Promise<SandboxId[]> {
  const tx = em.fork();
  const rows = await query<{ sandbox_id: SandboxId }>(
    tx,
    `select sandbox_id from sandboxes where host_id = ? and status = 'running' and sandbox_id <> all(?::text[])`,
    [hostId, `{${[...asked].join(',')}}`],
  );
  for (const { sandbox_id: id } of rows) {
    requestSignal(tx, 'sandbox', id, 'pauseRequested', { reason: 'host_draining' });
  }
  await tx.flush();
  return rows.map((row) => row.sandbox_id);
}
