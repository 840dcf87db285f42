import type { EntityManager } from '@mikro-orm/postgresql';
import type { FullDisk } from '../../domain/hosts/placement.ts';
import type { SandboxId } from '../../domain/ids.ts';
import { requestStart } from '../core/outbox.ts';
import { query } from '../core/query.ts';
import { Sandbox } from '../sandboxes/sandbox.entity.ts';
import { Host } from './host.entity.ts';

export interface HostRegistration {
  hostId: string;
  region: string;
  regionName: string;
  /** The total that may be promised to sandboxes. Null: unlimited. */
  cpuCapacity: number | null;
  memoryMbCapacity: number | null;
  diskGbCapacity: number | null;
  /** Bandwidth of one sandbox to the internet, in each direction. Absent: unlimited. */
  bandwidthMbps?: number;
}

/** Sends one statement with its own time limit; see `LeaseConnection`. */
export type RunStatement = (text: string, values: readonly unknown[]) => Promise<Record<string, unknown>[]>;

/**
 * Makes or renews a host's lease and stores its capacity. Times are those of the database's clock. A host that was
 * given up gets no lease until `rejoin`.
 * @param lease.offers false: the host is there, but takes no new sandboxes yet
 * @returns whether the host was given up
 */
export async function renewLease(
  run: RunStatement,
  host: HostRegistration,
  lease: { seconds: number; offers: boolean },
): Promise<{ lost: boolean }> {
  const end = 'now() + make_interval(secs => $7)';
  const [row] = await run(
    `insert into hosts as h (host_id, region, region_name, cpu_capacity, memory_mb_capacity, disk_gb_capacity,
                             bandwidth_mbps, lease_expires_at, away_until)
     values ($1, $2, $3, $4, $5, $6, $9, case when $8 then ${end} else now() end, case when $8 then null else ${end} end)
     on conflict (host_id) do update set region = excluded.region, region_name = excluded.region_name,
       cpu_capacity = excluded.cpu_capacity, memory_mb_capacity = excluded.memory_mb_capacity,
       disk_gb_capacity = excluded.disk_gb_capacity, bandwidth_mbps = excluded.bandwidth_mbps, updated_at = now(), away_until = excluded.away_until,
       lease_expires_at = case when h.lost_at is null and $8 then excluded.lease_expires_at else h.lease_expires_at end
     returning lost_at is not null as lost`,
    [
      ...[host.hostId, host.region, host.regionName],
      ...[host.cpuCapacity, host.memoryMbCapacity, host.diskGbCapacity],
      ...[lease.seconds, lease.offers, host.bandwidthMbps ?? null],
    ],
  );
  return { lost: row!.lost === true };
}

/** For a host that stops in order. It gets no new sandboxes from now on, and is given up only if it stays away. */
export async function endLease(run: RunStatement, hostId: string, awaySeconds: number): Promise<void> {
  await run(
    `update hosts set lease_expires_at = now(), away_until = now() + make_interval(secs => $2)
      where host_id = $1 and lost_at is null`,
    [hostId, awaySeconds],
  );
}

/** The lease of a host. A host that announced a restart counts as present. */
export interface HostStatus {
  isThere: boolean;
  lost: boolean;
}

export async function hostStatus(em: EntityManager, hostId: string): Promise<HostStatus> {
  const [row] = await query<{ lost: boolean; is_there: boolean }>(
    em.fork(),
    `select lost_at is not null as lost, greatest(lease_expires_at, away_until) > now() as is_there
         from hosts where host_id = ?`,
    [hostId],
  );
  return { isThere: row?.is_there ?? false, lost: row?.lost ?? false };
}

/** Records which disk of a host is nearly full. Null: none. New sandboxes then go to other hosts. */
export async function setFullDisk(em: EntityManager, hostId: string, fullDisk: FullDisk | null): Promise<void> {
  await query(em.fork(), 'update hosts set full_disk = ? where host_id = ?', [fullDisk, hostId]);
}

/** Whether sandboxes may be started on this host now. */
export async function hasLease(em: EntityManager, hostId: string): Promise<boolean> {
  const rows = await query(em.fork(), 'select 1 from hosts where host_id = ? and lease_expires_at > now()', [hostId]);
  return rows.length > 0;
}

/** Records the network (CIDR) of a host's sandboxes, at each start of the host. */
export async function recordSandboxNetwork(em: EntityManager, hostId: string, network: string): Promise<void> {
  await query(em.fork(), 'update hosts set sandbox_network = ? where host_id = ?', [network, hostId]);
}

/** Records the address at which gateways and APIs of other machines reach the sandboxes of a host. Null: by routes. */
export async function recordLastHop(em: EntityManager, hostId: string, address: string | null): Promise<void> {
  await query(em.fork(), 'update hosts set last_hop_address = ? where host_id = ?', [address, hostId]);
}

/** The facts that a connection to a sandbox of a host depends on. */
export interface HostPlace {
  /** `host:port`. Null: its sandboxes are reached by routes. */
  lastHopAddress: string | null;
  /** CIDR. Null: the host has not recorded it yet. */
  sandboxNetwork: string | null;
  /** The host was given up, and has not come back clean. */
  isLost: boolean;
}

/** Null: there is no such host. */
export async function findHostPlace(em: EntityManager, hostId: string): Promise<HostPlace | null> {
  const fields = ['lastHopAddress', 'sandboxNetwork', 'lostAt'] as const;
  const row = await em.fork().findOne(Host, { hostId }, { fields });
  if (!row) return null;
  const { lastHopAddress = null, sandboxNetwork = null, lostAt } = row;
  return { lastHopAddress, sandboxNetwork, isLost: lostAt != null };
}

/** The networks of the sandboxes of all hosts, as CIDR ranges. */
export async function sandboxNetworks(em: EntityManager): Promise<string[]> {
  const rows = await query<{
    sandbox_network: string;
  }>(em.fork(), 'select distinct sandbox_network from hosts where sandbox_network is not null');
  return rows.map((row) => row.sandbox_network);
}

/** Gives a host up, unless it has just come back. @returns whether it is given up, now or already */
export async function giveUpHost(em: EntityManager, hostId: string): Promise<boolean> {
  const rows = await query(
    em.fork(),
    `update hosts set lost_at = coalesce(lost_at, now())
        where host_id = ? and (lost_at is not null or greatest(lease_expires_at, away_until) <= now()) returning 1`,
    [hostId],
  );
  return rows.length > 0;
}

/** Ends the given-up state of a host that has removed its old sandboxes, so that it may take new ones. */
export async function rejoin(em: EntityManager, hostId: string): Promise<void> {
  await query(em.fork(), 'update hosts set lost_at = null where host_id = ?', [hostId]);
}

export interface BoundSandbox {
  sandboxId: SandboxId;
  /** The number of its last start or resume that began. Null: none has. */
  run: number | null;
}

/** Sandboxes that depend on this host's processes: all living ones except paused ones, which only need its disk. */
export async function sandboxesBoundTo(
  em: EntityManager,
  hostId: string,
  { after, limit }: { after: SandboxId | null; limit?: number } = { after: null },
): Promise<BoundSandbox[]> {
  const bound = ['created', 'starting', 'running', 'pausing', 'resuming'] as const;
  const rows = await em
    .fork()
    .find(
      Sandbox,
      { hostId, status: { $in: [...bound] }, ...(after !== null && { sandboxId: { $gt: after } }) },
      { fields: ['sandboxId', 'run'], orderBy: { sandboxId: 'asc' }, ...(limit && { limit }) },
    );
  return rows.map(({ sandboxId, run }) => ({ sandboxId, run: run ?? null }));
}

/** The number of living sandboxes with their disk on this host. A starting sandbox may have no disk yet. */
export async function countDisksOn(em: EntityManager, hostId: string): Promise<number> {
  const living = ['running', 'pausing', 'paused', 'resuming'] as const;
  return em.fork().count(Sandbox, { hostId, holdsDisk: true, status: { $in: [...living] } });
}

/** A sandbox without work in progress, for reconciliation. */
export interface StableSandbox {
  sandboxId: SandboxId;
  status: 'running' | 'paused';
  holdsCompute: boolean;
  allowInternetAccess: boolean;
}

/** Read every few seconds, so it leaves out the wide columns of the row. */
export async function stableSandboxes(em: EntityManager, hostId: string): Promise<StableSandbox[]> {
  const rows = await em
    .fork()
    .find(
      Sandbox,
      { hostId, status: { $in: ['running', 'paused'] } },
      { fields: ['sandboxId', 'status', 'holdsCompute', 'allowInternetAccess'] },
    );
  return rows.map(({ sandboxId, status, holdsCompute, allowInternetAccess }) => ({
    sandboxId,
    status: status as StableSandbox['status'],
    holdsCompute,
    allowInternetAccess,
  }));
}

/** The sandboxes of the list that run on this host. */
export async function runningSandboxes(em: EntityManager, hostId: string, sandboxIds: SandboxId[]): Promise<Sandbox[]> {
  if (sandboxIds.length === 0) return [];
  return em.fork().find(Sandbox, { hostId, status: 'running', sandboxId: { $in: sandboxIds } });
}

/** The sandboxes with processes or a disk on this host according to their rows, for reconciliation. */
export async function sandboxesOnHost(em: EntityManager, hostId: string): Promise<Sandbox[]> {
  return em.fork().find(Sandbox, { hostId, $or: [{ holdsCompute: true }, { holdsDisk: true }] });
}

/** Starts the workflow that watches a host, unless it runs already. */
export async function askForHostWatch(em: EntityManager, hostId: string): Promise<void> {
  const tx = em.fork();
  requestStart(tx, 'host', hostId, { hostId });
  await tx.flush();
}

/** Whether the region has, or had, a host. */
export async function isKnownRegion(em: EntityManager, region: string): Promise<boolean> {
  const rows = await query(em.fork(), 'select 1 from hosts where region = ? limit 1', [region]);
  return rows.length > 0;
}

/** When this host last renewed its lease. Null: never. */
export async function lastAliveAt(em: EntityManager, hostId: string): Promise<Date | null> {
  const row = await em.fork().findOne(Host, { hostId });
  return row?.updatedAt ?? null;
}

/** The UDP ports that a host offers to its sandboxes. */
export interface UdpOffer {
  /** The address or name at which clients reach the host. */
  publicAddress: string;
  /** The inclusive range of its ports. Null: it has none. */
  ports: { first: number; last: number } | null;
}

/** Stores this host's offer at each of its starts. Sandboxes keep the ports that they already have. */
export async function offerUdpPorts(em: EntityManager, hostId: string, offer: UdpOffer): Promise<void> {
  const udpPortFirst = offer.ports?.first ?? null;
  const udpPortLast = offer.ports?.last ?? null;
  await em.fork().nativeUpdate(Host, { hostId }, { publicAddress: offer.publicAddress, udpPortFirst, udpPortLast });
}
