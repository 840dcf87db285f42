import { runCommand } from '../process/command.ts';

export interface RouteRow {
  dst: string;
  dev?: string;
}

export interface AddressRow {
  ifname: string;
  mtu: number;
  /** `address` is the peer of a point-to-point link. */
  addr_info: { local: string; address?: string; prefixlen: number }[];
}

/** The IPv4 routes of this machine. */
export async function routes(): Promise<RouteRow[]> {
  return JSON.parse((await runCommand('ip', ['-json', '-4', 'route', 'show'])) || '[]');
}

/** The IPv4 addresses of this machine's interfaces. */
export async function interfaceAddresses(): Promise<AddressRow[]> {
  const rows: AddressRow[] = JSON.parse((await runCommand('ip', ['-json', '-4', 'address', 'show'])) || '[]');
  return rows.filter((row) => row.ifname !== undefined);
}
