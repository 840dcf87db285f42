import ipaddr from 'ipaddr.js';

/**
 * Ranges outside the public internet: loopback, private, shared, link-local with its metadata services, multicast,
 * reserved, and IPv6 that carries IPv4. The platform never connects to a user-supplied address in them.
 */
export const closedIpv4Ranges = [
  '0.0.0.0/8',
  '10.0.0.0/8',
  '100.64.0.0/10',
  '127.0.0.0/8',
  '169.254.0.0/16',
  '172.16.0.0/12',
  '192.0.0.0/24',
  '192.88.99.0/24',
  '192.168.0.0/16',
  '198.18.0.0/15',
  '224.0.0.0/3',
] as const;

/** The loopback address of the platform's own servers without a password. No setting opens it. */
export const innerLoopbackAddress = '127.83.68.75';

/** All public IPv6 addresses lie in this range, but not in `closedIpv6Ranges`. */
export const publicIpv6Range = '2000::/3';
export const closedIpv6Ranges = ['2001::/23', '2001:db8::/32', '2002::/16', '3fff::/20'] as const;

/**
 * Whether the platform may connect to a user-supplied address (of storage endpoints, image references). Pass the
 * address of the connection, not the result of an earlier lookup.
 * @param address IPv4 or IPv6, as text
 * @param allowedRanges CIDR ranges that the operator opened
 */
export function isOutboundAddressAllowed(address: string, allowedRanges: readonly string[]): boolean {
  if (!ipaddr.isValid(address)) return false;
  // An IPv4-mapped address counts as its IPv4 address.
  const parsed = ipaddr.process(address);
  if (parsed.toString() === innerLoopbackAddress) return false;
  if (allowedRanges.some((range) => isIn(parsed, range))) return true;
  if (parsed.kind() === 'ipv4') return !closedIpv4Ranges.some((range) => isIn(parsed, range));
  return isIn(parsed, publicIpv6Range) && !closedIpv6Ranges.some((range) => isIn(parsed, range));
}

/**
 * Whether an address lies in one of the ranges, or carries an IPv4 address that does: mapped, compatible, NAT64 or
 * 6to4.
 * @param ranges CIDR notation
 */
export function isAddressIn(address: string, ranges: readonly string[]): boolean {
  if (!ipaddr.isValid(address)) return false;
  const parsed = ipaddr.process(address);
  const inner = parsed instanceof ipaddr.IPv6 ? carriedIpv4(parsed) : null;
  return ranges.some((range) => isIn(parsed, range) || (inner !== null && isIn(inner, range)));
}

function isIn(address: Address, range: string): boolean {
  const [network, bits] = ipaddr.parseCIDR(range);
  return network.kind() === address.kind() && address.match(network as never, bits);
}

type Address = ReturnType<typeof ipaddr.parse>;

function carriedIpv4(address: InstanceType<typeof ipaddr.IPv6>): Address | null {
  const bytes = address.toByteArray();
  if (isIn(address, '2002::/16')) return ipaddr.fromByteArray(bytes.slice(2, 6));
  const isCarrier = ['64:ff9b::/96', '::/96'].some((range) => isIn(address, range));
  return isCarrier ? ipaddr.fromByteArray(bytes.slice(12)) : null;
}
