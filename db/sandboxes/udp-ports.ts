import type { EntityManager } from '@mikro-orm/postgresql';
import { AppError } from '../../domain/errors.ts';
import { lockRow } from '../core/lock-row.ts';
import { query } from '../core/query.ts';
import { Host } from '../hosts/host.entity.ts';

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

/**
 * Finds a free port of the host for each of these ports of a sandbox. The host's row is locked until the transaction
 * ends, so that no two sandboxes get the same port. The ports are taken when the sandbox's row is written.
 * @returns the host's port by the sandbox's
 * @throws {AppError} `no_capacity`
 */
export async function takeUdpPorts(
  tx: EntityManager,
  hostId: string,
  ports: readonly number[],
): Promise<Record<string, number>> {
  if (ports.length === 0) return {};
  await lockRow(tx, 'hosts', hostId);
  const free = await query<{ port: number }>(
    tx,
    `select candidate as port
       from hosts h, generate_series(h.udp_port_first, h.udp_port_last) candidate
      where h.host_id = ? and candidate not in (
        select taken.value::int from sandboxes s, jsonb_each_text(s.udp_host_ports) taken
         where s.host_id = ? and (s.holds_compute or s.holds_disk))
      order by random() limit ?`,
    [hostId, hostId, ports.length],
  );
  if (free.length < ports.length) {
    throw new AppError('no_capacity', 'The host of this sandbox has no UDP port left; try again later');
  }
  return Object.fromEntries(ports.map((port, at) => [port, free[at]!.port]));
}
