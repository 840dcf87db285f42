import { createHmac, timingSafeEqual } from 'node:crypto';
import ipaddr from 'ipaddr.js';

/** The field in which the gateway tells the API for which client it forwards a request, in lower case. */
export const forwardedClientField = 'x-platform-client';

/**
 * The value of the field: the client's address, and a signature, because any caller of the API could send the field.
 */
export function signForwardedClient(address: string, key: Buffer): string {
  return `${address} ${signature(address, key).toString('base64url')}`;
}

/** The address in a value of the field. Null: no gateway has signed it with one of the keys. */
export function readForwardedClient(value: string, keys: readonly Buffer[]): string | null {
  const [, address, signed] = /^([0-9A-Fa-f:.]{2,45}) ([A-Za-z0-9_-]{43})$/.exec(value) ?? [];
  if (address === undefined || !ipaddr.isValid(address)) return null;
  const given = Buffer.from(signed!, 'base64url');
  return keys.some((key) => timingSafeEqual(given, signature(address, key))) ? address : null;
}

function signature(address: string, key: Buffer): Buffer {
  return createHmac('sha256', key).update(address).digest();
}
