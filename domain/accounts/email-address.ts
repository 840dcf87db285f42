/** RFC 5321 §4.5.3.1. */
const maxAddressLength = 254;
const maxLocalPartLength = 64;

const localPart = /^[a-z0-9!#$%&'*+/=?^_`{|}~-]+(\.[a-z0-9!#$%&'*+/=?^_`{|}~-]+)*$/i;
const hostName = /^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)*[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/;

/**
 * Reads an e-mail address into the form in which it is stored and mailed to. The part before the `@` may only have
 * ASCII characters, so letters of other scripts cannot imitate them and case folding cannot change them. The domain
 * becomes lower-case ASCII, so a look-alike domain shows as `xn--…`.
 * @returns null when the text is not an address
 */
export function readEmailAddress(text: string): string | null {
  if (text.length > 2 * maxAddressLength) return null;
  const [local = '', domain = '', ...more] = text.trim().split('@');
  if (more.length > 0 || local.length > maxLocalPartLength || !localPart.test(local)) return null;
  const host = asciiHost(domain);
  if (host === null) return null;
  const address = `${local}@${host}`;
  return address.length <= maxAddressLength ? address : null;
}

/** The form in which two addresses of the same mailbox are equal. Takes the result of `readEmailAddress`. */
export function emailKey(address: string): string {
  return address.toLowerCase();
}

function asciiHost(domain: string): string | null {
  // Characters that would end the host part of a URL.
  if (/[\s/\\?#:@%[\]]/.test(domain) || !URL.canParse(`http://${domain}`)) return null;
  const host = new URL(`http://${domain}`).hostname;
  const isNumber = /(^|\.)\d+$/.test(host);
  return hostName.test(host) && !isNumber ? host : null;
}
