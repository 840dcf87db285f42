import { createHash } from 'node:crypto';

/**
 * How failed sign-ins slow down. There are three counts. Each allows some failures without a wait, and then requires
 * waits of 2, 4, 8 … seconds up to a maximum. Each count is reset after an hour without an attempt.
 *
 * - By e-mail and address: always applies. It also slows an attacker who shares the owner's address.
 * - By address, over all e-mails: against lists of many users' passwords.
 * - By e-mail, over all addresses: against an attacker with many addresses.
 *
 * The last two do not apply to an address from which the user has signed in during the last 90 days, so an attacker
 * elsewhere cannot lock owners out of their accounts. An owner at a new address, or at the attacker's address, can
 * still use the link to set a new password, which is mailed only to the owner. Using the link makes the address a known
 * one. An attempt before the end of a wait is refused without a check of its password, and does not prolong the wait.
 */
export interface SignInThrottle {
  key: string;
  freeFailures: number;
  longestWaitSeconds: number;
}

export const failuresForgottenAfterSeconds = 3600;
export const addressesKnownDays = 90;

/**
 * The counts that apply to a sign-in. At an address from which the user has recently signed in, only the first applies.
 * The keys are hashes, so that callers cannot choose their length.
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
