import ipaddr from 'ipaddr.js';

/** Who counts as one client: the IPv4 address, or the /64 that one IPv6 customer holds. */
export function clientKey(address: string): string {
  if (!ipaddr.isValid(address)) return address;
  const parsed = ipaddr.process(address);
  if (parsed.kind() === 'ipv4') return parsed.toString();
  return parsed.toByteArray().slice(0, 8).join('.');
}
