import type { EntityManager } from '@mikro-orm/postgresql';
import { Host } from '../entities/host.ts';
import { Sandbox } from '../entities/sandbox.ts';

export interface HostRegistration {
  hostId: string;
  region: string;
  regionName: string;
  cpuCapacity: number;
  memoryMbCapacity: number;
  diskGbCapacity: number;
}

/** How long a lease lasts, and so how long a host that went silent still gets sandboxes. */
export const leaseSeconds = 15;

/** Makes or renews a host's lease, with what it offers. The database's clock decides. */
export async function renewLease(em: EntityManager, host: HostRegistration): Promise<void> {
  await em.fork().execute(
    `insert into hosts (host_id, region, region_name, cpu_capacity, memory_mb_capacity, disk_gb_capacity, lease_expires_at)
     values (?, ?, ?, ?, ?, ?, now() + interval '${leaseSeconds} seconds')
     on conflict (host_id) do update set region = excluded.region, region_name = excluded.region_name,
       cpu_capacity = excluded.cpu_capacity, memory_mb_capacity = excluded.memory_mb_capacity,
       disk_gb_capacity = excluded.disk_gb_capacity, lease_expires_at = excluded.lease_expires_at, updated_at = now()`,
    [host.hostId, host.region, host.regionName, host.cpuCapacity, host.memoryMbCapacity, host.diskGbCapacity],
  );
}

/** Gives the lease up at once: a host that stops in order gets no new sandboxes. */
export async function endLease(em: EntityManager, hostId: string): Promise<void> {
  await em.fork().execute('update hosts set lease_expires_at = now() where host_id = ?', [hostId]);
}

/** The sandboxes that should have something on this host, for reconciliation. */
export async function sandboxesOnHost(em: EntityManager, hostId: string): Promise<Sandbox[]> {
  return em.fork().find(Sandbox, { hostId, $or: [{ holdsCompute: true }, { holdsDisk: true }] });
}

/** Regions that have, or had, a host. */
export async function isKnownRegion(em: EntityManager, region: string): Promise<boolean> {
  const rows = await em.fork().execute('select 1 from hosts where region = ? limit 1', [region]);
  return rows.length > 0;
}

/** When this host last renewed its lease. Null: it never did. */
export async function lastAliveAt(em: EntityManager, hostId: string): Promise<Date | null> {
  const row = await em.fork().findOne(Host, { hostId });
  return row?.updatedAt ?? null;
}
