import { createHash, timingSafeEqual } from 'node:crypto';

/** Whether two secrets are the same, in a time that does not depend on where they differ. */
export function sameSecret(given: string, expected: string): boolean {
  const a = Buffer.from(given);
  const b = Buffer.from(expected);
  if (a.length !== b.length) return false;
  return timingSafeEqual(a, b);
}

/** A file operation as a signed URL names it. */
export interface SignedOperation {
  path: string;
  operation: 'read' | 'write';
  username: string;
  /** Unix seconds; null: the signature does not end. */
  expiration: string | null;
}

/**
 * The signature of a file URL: `v1_` and the unpadded base64 of SHA-256 over
 * `{path}:{operation}:{username}:{token}[:{expiration}]`.
 */
export function fileSignature({ path, operation, username, expiration }: SignedOperation, token: string): string {
  const parts = [path, operation, username, token];
  if (expiration !== null) parts.push(expiration);
  return `v1_${createHash('sha256').update(parts.join(':')).digest('base64').replace(/=+$/, '')}`;
}

export type SignatureVerdict = 'valid' | 'invalid' | 'expired';

/** Judges the `signature` of a file URL; `nowSeconds` is the clock. */
export function judgeSignature(
  signature: string,
  signed: SignedOperation,
  token: string,
  nowSeconds = Date.now() / 1000,
): SignatureVerdict {
  // The fields are joined by colons and only the path may have any: a user `y:read:root` would make a signature for
  // reading `/a:write:y` one for writing `/a`.
  if (signed.username.includes(':')) return 'invalid';
  if (signed.expiration !== null && !/^[0-9]{1,12}$/.test(signed.expiration)) return 'invalid';
  // The signature first: a wrong one learns nothing of the clock.
  if (!sameSecret(signature, fileSignature(signed, token))) return 'invalid';
  if (signed.expiration !== null && !(Number(signed.expiration) >= nowSeconds)) return 'expired';
  return 'valid';
}
