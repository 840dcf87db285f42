import ipaddr from 'ipaddr.js';
import { isOutboundAddressAllowed } from '../outbound-addresses.ts';

export const webhookUrlLength = 2048;

/**
 * Ports of other protocols (the "bad ports" of the Fetch standard), where an HTTP request could be read as commands.
 */
const otherProtocols = new Set([
  ...[
    1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102, 103, 104, 109, 110,
  ],
  ...[
    111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427, 465, 512, 513, 514, 515, 526, 530, 531, 532,
  ],
  ...[540, 548, 554, 556, 563, 587, 601, 636, 989, 990, 993, 995, 1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061],
  ...[6000, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 10080],
]);

/**
 * The host of a URL without the brackets of IPv6. `URL` has already converted numbers and octal parts to plain IPv4.
 */
export function toHostname(url: URL): string {
  return url.hostname.replace(/^\[(.*)\]$/, '$1');
}

/**
 * The reason why a webhook may not have this URL. Names are not resolved here, because each connection checks its
 * address.
 * @param allowedRanges ranges that the operator opened in addition to the public internet
 * @returns null when the URL is allowed
 */
export function problemOfWebhookUrl(text: string, allowedRanges: readonly string[]): string | null {
  if (text.length > webhookUrlLength) return `has more than ${webhookUrlLength} characters`;
  if (!/^https?:\/\//i.test(text) || !URL.canParse(text)) return 'must be an http:// or https:// URL';
  const url = new URL(text);
  if (url.username !== '' || url.password !== '') return 'must not have a user or a password';
  if (url.hash !== '') return 'must not have a fragment';
  if (otherProtocols.has(Number(url.port)) || url.port === '0') return `port ${url.port} is not for HTTP`;
  const host = toHostname(url);
  if (ipaddr.isValid(host) && !isOutboundAddressAllowed(host, allowedRanges)) {
    return 'is an address that is not allowed';
  }
  return null;
}
