import { createHash } from 'node:crypto';

/**
 * How failed sign-ins slow down. Three counts, each with failures that cost nothing and then waits of 2, 4, 8 … seconds
 * up to a longest one; each forgets after an hour without an attempt.
 *
 * - An e-mail from an address: always counts. It slows an attacker who shares the owner's address, too.
 * - An address, over all e-mails: against lists of many users' passwords.
 * - An e-mail, over all addresses: against an attacker with many addresses.
 *
 * The last two do not count for an address that this user has signed in from during the last 90 days, so no attacker
 * elsewhere keeps owners out of their accounts. An owner at a new address, or beside an attacker, still has the link
 * to a new password, which goes to the owner alone; its use makes the address a known one. An attempt that comes too
 * early is refused whatever its password is and does not make the wait longer.
 */
export interface SignInThrottle {
  key: string;
  freeFailures: number;
  longestWaitSeconds: number;
}

export const failuresForgottenAfterSeconds = 3600;
export const addressesKnownDays = 90;

/**
 * The counts that apply to a sign-in: only the first at an address from which the user has signed in lately. Their keys
 * are hashes, so no caller chooses their length.
 */
export function signInThrottles(attempt: { email: string; address: string }): SignInThrottle[] {
  const keys = throttleKeys(attempt);
  return [
    { key: keys.pair, freeFailures: 10, longestWaitSeconds: 60 },
    addressThrottle(attempt.address),
    { key: keys.email, freeFailures: 20, longestWaitSeconds: 30 },
  ];
}

/** The count of an address, over all e-mails. */
export function addressThrottle(address: string): SignInThrottle {
  return { key: hashed('address', address), freeFailures: 100, longestWaitSeconds: 60 };
}

export function throttleKeys({ email, address }: { email: string; address: string }) {
  return {
    pair: hashed('pair', email, address),
    address: hashed('address', address),
    email: hashed('email', email),
  };
}

/** The stored form of an address from which a user signed in. */
export function knownAddressHash(address: string): string {
  return hashed('known', address);
}

function hashed(...parts: string[]): string {
  return createHash('sha256').update(JSON.stringify(parts)).digest('base64url');
}
