import ipaddr from 'ipaddr.js';

/**
 * What is no public internet: loopback, private, shared, link-local with its metadata services, multicast, reserved,
 * and IPv6 that carries IPv4 inside. An address that a user names for the platform to connect to must not be in these.
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

/** Public IPv6 addresses are all in here, less the ranges of `closedIpv6Ranges`. */
export const publicIpv6Range = '2000::/3';
export const closedIpv6Ranges = ['2001::/23', '2001:db8::/32', '2002::/16', '3fff::/20'] as const;

/**
 * Whether the platform may connect to an address that a user names: storage endpoints, image references. Ask it of the
 * address that is connected to, not of a name looked up before.
 * @param address IPv4 or IPv6, as text
 * @param allowedRanges CIDR ranges that the operator opened
 */
export function isOutboundAddressAllowed(address: string, allowedRanges: readonly string[]): boolean {
  if (!ipaddr.isValid(address)) return false;
  // An IPv4 address in IPv6 clothes is what it is inside.
  const parsed = ipaddr.process(address);
  const isIn = (range: string) => {
    const [network, bits] = ipaddr.parseCIDR(range);
    return network.kind() === parsed.kind() && parsed.match(network as never, bits);
  };
  if (allowedRanges.some(isIn)) return true;
  if (parsed.kind() === 'ipv4') return !closedIpv4Ranges.some(isIn);
  return isIn(publicIpv6Range) && !closedIpv6Ranges.some(isIn);
}
