import ipaddr from 'ipaddr.js';

/**
 * The part of an address that identifies one client: the IPv4 address, or the /64 of an IPv6 address, because one
 * customer typically has a whole /64.
 */
export function clientKey(address: string): string {
  if (!ipaddr.isValid(address)) return address;
  const parsed = ipaddr.process(address);
  if (parsed.kind() === 'ipv4') return parsed.toString();
  return parsed.toByteArray().slice(0, 8).join('.');
}
