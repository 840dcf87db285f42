import ipaddr from 'ipaddr.js';

/** A network such as `10.1.0.0/20`. */
export interface Ipv4Network {
  /** The first address of the network as a number. */
  base: number;
  prefixLength: number;
  /** The number of its addresses. */
  size: number;
}

/** @throws {TypeError} when the text is not an IPv4 address */
export function parseIpv4(text: string): number {
  if (!ipaddr.IPv4.isValidFourPartDecimal(text)) throw new TypeError(`${text} is not an IPv4 address`);
  return Buffer.from(ipaddr.IPv4.parse(text).toByteArray()).readUInt32BE();
}

export function formatIpv4(address: number): string {
  return [24, 16, 8, 0].map((bits) => Math.floor(address / 2 ** bits) % 256).join('.');
}

/** The network of an address with a prefix length. @throws {TypeError} */
export function parseIpv4Network(text: string): Ipv4Network {
  const [address, prefix = '32'] = text.split('/');
  const prefixLength = Number(prefix);
  if (!Number.isInteger(prefixLength) || prefixLength < 0 || prefixLength > 32) {
    throw new TypeError(`${text} is not an IPv4 network`);
  }
  const size = 2 ** (32 - prefixLength);
  return { base: Math.floor(parseIpv4(address!) / size) * size, prefixLength, size };
}

export function formatIpv4Network({ base, prefixLength }: Ipv4Network): string {
  return `${formatIpv4(base)}/${prefixLength}`;
}

export function overlaps(one: Ipv4Network, other: Ipv4Network): boolean {
  return one.base < other.base + other.size && other.base < one.base + one.size;
}
